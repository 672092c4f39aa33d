// Package proc measures the resources of the process: its peak memory, its processor time and the
// memory that is still available to it. CheckMemory refuses work that does not fit into that
// memory.
package proc

import (
	"fmt"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"strings"

	"github.com/dustin/go-humanize"
)

// Room is the number of bytes that the process can still allocate, and the limit that applies.
type Room struct {
	Bytes int64
	Limit string // such as "free memory of the machine"
}

// Unlimited is the room of a process without a known limit.
var Unlimited = Room{Bytes: math.MaxInt64}

// AvailableMemory returns the room under the tightest known limit. It is a variable so that tests
// can replace it.
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

// Need is an amount of memory that some work will allocate, and its purpose.
type Need struct {
	For   string // the purpose, such as "parameters"
	Bytes int64
}

// Total returns the sum of needs in bytes.
func Total(needs []Need) (bytes int64) {
	for _, n := range needs {
		bytes += n.Bytes
	}
	return bytes
}

// Negligible is the number of bytes below which CheckMemory accepts the work without reading the
// limits. The Go runtime itself may need this much.
const Negligible = 32 << 20

// CheckMemory returns an error if work needs more memory than is available. Call it before the
// work, because Go cannot recover from a failed allocation. needs should list only the memory that
// the work is certain to allocate, so CheckMemory never refuses work that would succeed. advice
// tells the user what to do.
func CheckMemory(work, advice string, needs ...Need) error {
	need := Total(needs)
	if need < Negligible {
		return nil
	}
	room := AvailableMemory()
	if need > room.Bytes {
		debug.FreeOSMemory() // collect garbage before refusing
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
	return fmt.Errorf("%s needs about %s of memory (%s), but only %s is available (%s): %s",
		work, size(need), strings.Join(parts, ", "), size(room.Bytes), room.Limit, advice)
}

func size(bytes int64) string { return humanize.IBytes(uint64(bytes)) }

// idleHeap returns the number of bytes of address space that the heap has reserved but does not
// use.
func idleHeap() int64 {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	var idle int64
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			idle += int64(s.Value.Uint64())
		}
	}
	return idle
}
