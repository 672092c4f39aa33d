package proc

// PeakRSS returns the peak working set of the process in bytes, or 0 if it is unknown.
func PeakRSS() int64 {
	c, ok := memoryCounters()
	if !ok {
		return 0
	}
	return int64(c.peakWorkingSet)
}
