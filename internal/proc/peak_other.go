//go:build !linux && !darwin && !windows

package proc

// PeakRSS returns 0, because this system does not report the peak resident memory of a process.
func PeakRSS() int64 { return 0 }
