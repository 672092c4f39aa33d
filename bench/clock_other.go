//go:build !linux

package bench

import "time"

const threadTimeKnown = false

var processStart = time.Now()

// threadTime returns the time on the clock.
func threadTime() time.Duration { return time.Since(processStart) }
