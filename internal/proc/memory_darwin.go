package proc

import "golang.org/x/sys/unix"

// memoryLimits returns the memory of the machine, because macOS enforces no other limit.
func memoryLimits() []Room {
	bytes, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return nil
	}
	return []Room{{int64(bytes), "memory of the machine"}}
}
