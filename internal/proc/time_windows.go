package proc

import (
	"time"

	"golang.org/x/sys/windows"
)

// ProcessorTime returns the processor time that all threads of the process have used, or 0 if it is
// unknown.
func ProcessorTime() time.Duration {
	var created, ended, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(windows.CurrentProcess(), &created, &ended, &kernel, &user); err != nil {
		return 0
	}
	const unit = 100 * time.Nanosecond
	ticks := func(t windows.Filetime) time.Duration {
		return time.Duration(int64(t.HighDateTime)<<32 | int64(t.LowDateTime))
	}
	return unit * (ticks(kernel) + ticks(user))
}
