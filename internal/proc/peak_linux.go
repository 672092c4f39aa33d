package proc

import (
	"bytes"
	"os"
	"strconv"
)

// PeakRSS returns the largest resident memory that the process has had, in bytes, and 0 where
// the system does not tell. Linux's getrusage would count what the parent had before exec.
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
