//go:build unix

package main

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// readOnly tells whether a file is not to be written to: by nobody, or not by this user.
func readOnly(path string, info fs.FileInfo) bool {
	return info.Mode().Perm()&0o222 == 0 || errors.Is(unix.Access(path, unix.W_OK), unix.EACCES)
}
