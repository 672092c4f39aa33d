//go:build unix

package proc

import (
	"syscall"
	"time"
)

// ProcessorTime returns the processor time that the process has used, on all threads, or 0 where the system does not
// tell.
func ProcessorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
