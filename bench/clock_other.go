//go:build !linux

package bench

import (
	"runtime"
	"time"
)

const threadTimeKnown = false

var processStart = time.Now()

// threadTime returns wall-clock time.
func threadTime() time.Duration { return time.Since(processStart) }

// processTime returns wall-clock time multiplied by the number of processors that Go uses.
func processTime() time.Duration {
	return time.Duration(runtime.GOMAXPROCS(0)) * time.Since(processStart)
}
