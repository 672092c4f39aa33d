package bench

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTimeKnown reports whether threadTime is processor time.
const threadTimeKnown = true

// threadTime returns the processor time of the calling thread. The goroutine must be locked to the
// thread.
func threadTime() time.Duration { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

// processTime returns the processor time of all threads of the process.
func processTime() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

func clock(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic(err) // every Linux version that Go supports has these clocks
	}
	return time.Duration(t.Nano())
}
