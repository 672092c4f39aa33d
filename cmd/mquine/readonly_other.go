//go:build !unix

package main

import "io/fs"

// readOnly reports whether no user may write to a file.
func readOnly(_ string, info fs.FileInfo) bool { return info.Mode().Perm()&0o222 == 0 }
