package main

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// isPipeError reports whether err says that the reader of a pipe is gone.
func isPipeError(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA) ||
		errors.Is(err, syscall.EPIPE)
}

// prepareConsole makes the console understand the escape sequences of progress bars. If a console
// does not support them, as on Windows 8, the sequences appear as text.
func prepareConsole() {
	for _, file := range []*os.File{os.Stdout, os.Stderr} {
		console := windows.Handle(file.Fd())
		var mode uint32
		if windows.GetConsoleMode(console, &mode) == nil {
			_ = windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING)
		}
	}
}

// openFilesLimit returns no limit, because on Windows only memory limits the number of open files.
func openFilesLimit() (n int64, known bool) { return 0, false }
