package proc

import (
	"bytes"
	"os"
	"strconv"
)

// PeakRSS returns the peak resident memory of the process in bytes, or 0 if it is unknown. It does
// not use getrusage, which on Linux includes the memory of the parent before exec.
func PeakRSS() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, found := bytes.Cut(status, []byte("\nVmHWM:"))
	fields := bytes.Fields(rest)
	if !found || len(fields) < 2 || string(fields[1]) != "kB" {
		return 0
	}
	kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}
