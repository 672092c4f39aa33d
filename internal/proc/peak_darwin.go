package proc

import "syscall"

// PeakRSS returns the peak resident memory of the process in bytes, or 0 if it is unknown.
func PeakRSS() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return usage.Maxrss
}
