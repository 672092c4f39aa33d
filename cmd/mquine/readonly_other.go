//go:build !unix

package main

import "io/fs"

// readOnly reports whether the permissions of a file forbid writing to all users.
func readOnly(_ string, info fs.FileInfo) bool { return info.Mode().Perm()&0o222 == 0 }
