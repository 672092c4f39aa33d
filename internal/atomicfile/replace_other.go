//go:build !windows

package atomicfile

import (
	"os"
	"syscall"
)

// fullErrors are the errors of a full disk.
var fullErrors = []error{syscall.ENOSPC, syscall.EDQUOT}

// replace renames a file within its folder and replaces a file that has the new name.
func replace(from, to string) error { return os.Rename(from, to) }
