//go:build !unix

package main

import "io/fs"

// readOnly reports whether the permissions of a file forbid all users to write to it.
func readOnly(_ string, info fs.FileInfo) bool { return info.Mode().Perm()&0o222 == 0 }
