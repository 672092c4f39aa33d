package proc

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	kernel32             = windows.NewLazySystemDLL("kernel32.dll")
	globalMemoryStatusEx = kernel32.NewProc("GlobalMemoryStatusEx")
	getProcessMemoryInfo = kernel32.NewProc("K32GetProcessMemoryInfo")
)

// memoryLimits returns the room under the commit limit of the machine and under the limits of the
// process's job object, such as a container. An allocation counts towards all of them before
// anything writes to it.
func memoryLimits() (rooms []Room) {
	if bytes, ok := commitRoom(); ok {
		rooms = append(rooms, Room{bytes, "free memory and page file of the machine"})
	}
	usage, known := memoryCounters()
	var job windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	err := windows.QueryInformationJobObject(0, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&job)), uint32(unsafe.Sizeof(job)), nil)
	if err != nil || !known {
		return rooms
	}
	for flag, limit := range map[uint32]uintptr{
		windows.JOB_OBJECT_LIMIT_PROCESS_MEMORY: job.ProcessMemoryLimit,
		windows.JOB_OBJECT_LIMIT_JOB_MEMORY:     job.JobMemoryLimit,
	} {
		if job.BasicLimitInformation.LimitFlags&flag != 0 {
			rooms = append(rooms, Room{int64(limit) - int64(usage.privateUsage), "memory limit of the job object"})
		}
	}
	return rooms
}

// commitRoom returns the number of bytes that the process can still commit.
func commitRoom() (bytes int64, ok bool) {
	var status struct { // MEMORYSTATUSEX
		length, load                  uint32
		totalPhysical, freePhysical   uint64
		totalPageFile, freePageFile   uint64
		totalVirtual, freeVirtual, xv uint64
	}
	status.length = uint32(unsafe.Sizeof(status))
	done, _, _ := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&status)))
	return int64(status.freePageFile), done != 0
}

// counters is PROCESS_MEMORY_COUNTERS_EX.
type counters struct {
	size, pageFaults                     uint32
	peakWorkingSet, workingSet           uintptr
	peakPagedPool, pagedPool             uintptr
	peakNonPagedPool, nonPagedPool       uintptr
	pageFile, peakPageFile, privateUsage uintptr
}

// memoryCounters returns the memory usage of the process.
func memoryCounters() (c counters, ok bool) {
	c.size = uint32(unsafe.Sizeof(c))
	done, _, _ := getProcessMemoryInfo.Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&c)),
		uintptr(c.size))
	return c, done != 0
}
