package proc

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memoryLimits lists what limits the memory of the process, and the room that each leaves.
func memoryLimits() []Room { return system{"/", idleHeap()}.rooms() }

// system is what Linux tells a process about itself in the folders proc and sys below root.
type system struct {
	root string
	// idle is address space that the process holds already and can fill.
	idle int64
}

// rooms counts for each limit what the limit counts. Address space and data are used up by an allocation even
// if nobody writes to it, and a part of them is idle in the heap. Of the machine's memory and that of a control group,
// the page cache is free, mapped checkpoints included, because the kernel drops it for an allocation.
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
		add("limit of what the machine commits to, vm.overcommit_memory = 2",
			memory["CommitLimit"], memory["Committed_AS"].negative(), idle)
	}
	swap := memory["SwapFree"]
	add("free memory of the machine", memory["MemAvailable"], number{swap.value, true})
	for _, g := range s.groups() {
		add("memory limit of the control group", g.room(s, swap.value))
		if !g.unified {
			add("limit of memory and swap of the control group", g.roomWithSwap(s))
		}
	}
	return rooms
}

// number is a number that may not be known.
type number struct {
	value int64
	known bool
}

func (n number) negative() number { return number{-n.value, n.known} }

// boundless is a limit that limits nothing: version 1 of control groups has 2⁶³ − 4096 for none.
const boundless = 1 << 60

// parse reads a number; "max" and "unlimited" are not known.
func parse(text string) number {
	v, err := strconv.ParseInt(text, 10, 64)
	return number{v, err == nil && v < boundless}
}

// number reads the file of a single number, which is not known if there is no such file.
func (s system) number(path string) number { return parse(strings.TrimSpace(string(s.read(path)))) }

func (s system) read(path string) []byte {
	data, err := os.ReadFile(filepath.Join(s.root, path))
	if err != nil {
		return nil // as if it were empty
	}
	return data
}

// The units of tables.
const (
	singleBytes = 1
	kibibytes   = 1 << 10
)

// table reads lines such as "MemAvailable:   123 kB" or "inactive_file 123".
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

// resource returns a soft limit of the process, which is not known if there is none.
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
