//go:build !linux && !darwin && !freebsd && !windows

package proc

// FreeDisk returns false, because mquine cannot read the free space on this system.
func FreeDisk(string) (bytes int64, known bool) { return 0, false }
