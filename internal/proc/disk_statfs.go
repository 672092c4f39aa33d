//go:build linux || darwin || freebsd

package proc

import "golang.org/x/sys/unix"

// FreeDisk returns the number of bytes that this user can still write to the file system of a
// folder.
func FreeDisk(dir string) (bytes int64, known bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
