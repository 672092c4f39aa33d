//go:build !linux

package bench

import (
	"runtime"
	"time"
)

const threadTimeKnown = false

var processStart = time.Now()

// threadTime returns the time on the clock.
func threadTime() time.Duration { return time.Since(processStart) }

// processTime returns the time on the clock for each processor.
func processTime() time.Duration {
	return time.Duration(runtime.GOMAXPROCS(0)) * time.Since(processStart)
}
