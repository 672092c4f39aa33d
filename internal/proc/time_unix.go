//go:build unix

package proc

import (
	"syscall"
	"time"
)

// ProcessorTime returns the processor time that all threads of the process have used, or 0 if it is
// unknown.
func ProcessorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
