//go:build !unix && !windows

package proc

import "time"

// ProcessorTime returns 0, because this system does not report the processor time of a process.
func ProcessorTime() time.Duration { return 0 }
