package bench

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTimeKnown says that threadTime is the time for which the thread had a processor.
const threadTimeKnown = true

// threadTime returns the processor time of the calling thread, to which the goroutine must be locked.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // every Linux that Go runs on has this clock
	}
	return time.Duration(t.Nano())
}
