//go:build !unix

package proc

import "time"

// ProcessorTime returns 0: the processor time of the process is not known on this system.
func ProcessorTime() time.Duration { return 0 }
