//go:build !linux && !darwin

package proc

// PeakRSS returns 0: the largest resident memory of the process is not known on this system.
func PeakRSS() int64 { return 0 }
