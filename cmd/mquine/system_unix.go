//go:build unix

package main

import (
	"errors"
	"syscall"
)

// isPipeError reports whether err says that the reader of a pipe is gone.
func isPipeError(err error) bool { return errors.Is(err, syscall.EPIPE) }

// prepareConsole does nothing: terminals understand escape sequences.
func prepareConsole() {}

// openFilesLimit returns the maximum number of files that the process can have open at once.
func openFilesLimit() (n int64, known bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, false
	}
	return int64(min(uint64(limit.Cur), 1<<62)), true
}
