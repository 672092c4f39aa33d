package proc

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memoryLimits returns the room under each memory limit of the process.
func memoryLimits() []Room { return system{"/", idleHeap()}.rooms() }

// system reads the folders proc and sys below root.
type system struct {
	root string
	// idle is the number of bytes of address space that the process has reserved but not yet
	// filled.
	idle int64
}

// rooms returns the room under each known limit. The limits count memory differently. An allocation
// counts towards the commit limit and the limits on the address space and the data segment even
// before anything writes to it, but the idle part of the heap remains available. The memory of the
// machine and the limits of control groups cover only resident memory. Under these limits, the page
// cache, including mapped checkpoints, counts as available, because the kernel drops it when memory
// is needed.
func (s system) rooms() []Room {
	memory := s.table("proc/meminfo", kibibytes)
	status := s.table("proc/self/status", kibibytes)
	var rooms []Room
	add := func(limit string, terms ...number) {
		sum := terms[0]
		for _, t := range terms[1:] {
			sum = number{sum.value + t.value, sum.known && t.known}
		}
		if sum.known {
			rooms = append(rooms, Room{sum.value, limit})
		}
	}
	idle := number{s.idle, true}
	add("limit of the address space, ulimit -v", s.resource("Max address space"), status["VmSize"].negative(), idle)
	add("limit of the data segment, ulimit -d", s.resource("Max data size"), status["VmData"].negative(), idle)
	if mode := s.number("proc/sys/vm/overcommit_memory"); mode == (number{2, true}) {
		add("commit limit of the machine, vm.overcommit_memory = 2",
			memory["CommitLimit"], memory["Committed_AS"].negative(), idle)
	}
	swap := memory["SwapFree"]
	add("free memory of the machine", memory["MemAvailable"], number{swap.value, true})
	for _, g := range s.groups() {
		add("memory limit of the control group", g.room(s, swap.value))
		if !g.unified {
			add("memory and swap limit of the control group", g.roomWithSwap(s))
		}
	}
	return rooms
}

// number is a value that may be unknown.
type number struct {
	value int64
	known bool
}

func (n number) negative() number { return number{-n.value, n.known} }

// boundless is the smallest value that means no limit. Version 1 of control groups writes 2⁶³ −
// 4096.
const boundless = 1 << 60

// parse reads a number. "max" and "unlimited" give an unknown number.
func parse(text string) number {
	v, err := strconv.ParseInt(text, 10, 64)
	return number{v, err == nil && v < boundless}
}

// number reads a file that holds a single number. The result is unknown if the file does not exist.
func (s system) number(path string) number { return parse(strings.TrimSpace(string(s.read(path)))) }

func (s system) read(path string) []byte {
	data, err := os.ReadFile(filepath.Join(s.root, path))
	if err != nil {
		return nil // a missing file counts as empty
	}
	return data
}

// These are the units of the values in a table.
const (
	singleBytes = 1
	kibibytes   = 1 << 10
)

// table reads a file with lines such as "MemAvailable:   123 kB" or "inactive_file 123".
func (s system) table(path string, unit int64) map[string]number {
	values := map[string]number{}
	for line := range bytes.Lines(s.read(path)) {
		if f := strings.Fields(string(line)); len(f) >= 2 {
			n := parse(f[1])
			values[strings.TrimSuffix(f[0], ":")] = number{n.value * unit, n.known}
		}
	}
	return values
}

// resource returns a soft limit of the process. The result is unknown if the process has no such
// limit.
func (s system) resource(name string) number {
	lines := bufio.NewScanner(bytes.NewReader(s.read("proc/self/limits")))
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				return parse(f[0])
			}
		}
	}
	return number{}
}
