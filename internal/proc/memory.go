// Package proc knows what the process uses and what it may use: its peak memory, its processor time, and the
// memory that the machine and the limits of the process leave it.
package proc

import (
	"fmt"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"strings"

	"github.com/dustin/go-humanize"
)

// Room is memory that the process can take beyond what it holds, and what limits it.
type Room struct {
	Bytes int64
	Limit string // such as "free memory of the machine"
}

// Unlimited is the room of a process of which no limit is known.
var Unlimited = Room{Bytes: math.MaxInt64}

// AvailableMemory returns the room under the tightest limit. Limits that the system does not tell are left out.
// It is a variable for the sake of tests, which replace it.
var AvailableMemory = func() Room { return tightest(memoryLimits()) }

func tightest(rooms []Room) Room {
	least := Unlimited
	for _, r := range rooms {
		if r.Bytes < least.Bytes {
			least = Room{max(r.Bytes, 0), r.Limit}
		}
	}
	return least
}

// Need is memory that some work is going to allocate, and what for.
type Need struct {
	For   string // such as "parameters"
	Bytes int64
}

// Total adds up needs.
func Total(needs []Need) (bytes int64) {
	for _, n := range needs {
		bytes += n.Bytes
	}
	return bytes
}

// Negligible is the need below which CheckMemory never refuses, since the Go runtime itself takes as much. It is not worth the
// reading of limits.
const Negligible = 32 << 20

// CheckMemory returns an error if work needs more memory than there is: Go cannot recover from a failed
// allocation, so this must be asked before. The needs should be what the work is certain to allocate, so that
// nothing is refused that would succeed; advice says what the user can do.
func CheckMemory(work, advice string, needs ...Need) error {
	need := Total(needs)
	if need < Negligible {
		return nil
	}
	room := AvailableMemory()
	if need > room.Bytes {
		debug.FreeOSMemory() // garbage is no reason to refuse
		room = AvailableMemory()
	}
	if need <= room.Bytes {
		return nil
	}
	var parts []string
	for _, n := range needs {
		if n.Bytes >= need/100 {
			parts = append(parts, n.For+" "+size(n.Bytes))
		}
	}
	return fmt.Errorf("%s needs about %s of memory (%s), and %s are available (%s): %s",
		work, size(need), strings.Join(parts, ", "), size(room.Bytes), room.Limit, advice)
}

func size(bytes int64) string { return humanize.IBytes(uint64(bytes)) }

// idleHeap returns the address space that the heap holds and does not use.
func idleHeap() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	var idle int64
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			idle += int64(s.Value.Uint64())
		}
	}
	return idle
}
