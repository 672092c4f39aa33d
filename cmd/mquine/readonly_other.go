//go:build !unix

package main

import "io/fs"

// readOnly tells whether a file is not to be written to.
func readOnly(_ string, info fs.FileInfo) bool { return info.Mode().Perm()&0o222 == 0 }
