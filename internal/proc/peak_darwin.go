package proc

import "syscall"

// PeakRSS returns the largest resident memory that the process has had, in bytes, and 0 where
// the system does not tell.
func PeakRSS() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return usage.Maxrss
}
