//go:build unix

package main

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// readOnly reports whether the permissions of a file forbid writing, to all users or to the current
// user.
func readOnly(path string, info fs.FileInfo) bool {
	return info.Mode().Perm()&0o222 == 0 || errors.Is(unix.Access(path, unix.W_OK), unix.EACCES)
}
