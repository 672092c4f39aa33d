package proc

import "golang.org/x/sys/windows"

// FreeDisk returns the number of bytes that this user can still write to the file system of a
// folder.
func FreeDisk(dir string) (bytes int64, known bool) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, false
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, false
	}
	return int64(free), true
}
