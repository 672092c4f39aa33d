package proc

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// group is a control group that may limit memory: the group of the process or one of its ancestors.
type group struct {
	dir     string
	unified bool // version 2
}

// groups returns the groups in all mounted hierarchies that may limit the memory of the process.
func (s system) groups() (list []group) {
	mounts := s.mounts()
	for line := range bytes.Lines(s.read("proc/self/cgroup")) {
		// hierarchy:controllers:path. Version 2 leaves controllers empty.
		fields := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(fields) != 3 {
			continue
		}
		unified := fields[1] == ""
		if !unified && !slices.Contains(strings.Split(fields[1], ","), "memory") {
			continue
		}
		for _, m := range mounts {
			below, ok := m.below(fields[2])
			if m.unified != unified || !ok {
				continue
			}
			for ; ; below = path.Dir(below) {
				list = append(list, group{path.Join(m.point, below), unified})
				if below == "/" {
					break
				}
			}
		}
	}
	return list
}

// mount is a mounted hierarchy of groups. root is the path of a group in the hierarchy, and point
// is the folder where this group is mounted.
type mount struct {
	root, point string
	unified     bool
}

// below returns the path of a group relative to the root of the mount, if the mount contains the
// group.
func (m mount) below(group string) (string, bool) {
	rest, ok := strings.CutPrefix(group, strings.TrimSuffix(m.root, "/"))
	outside := slices.Contains(strings.Split(group, "/"), "..") // this namespace does not contain the group
	if !ok || rest != "" && rest[0] != '/' || outside {
		return "", false
	}
	return path.Join("/", rest), true
}

// mounts returns the mounted hierarchies that account for memory.
func (s system) mounts() (list []mount) {
	for line := range bytes.Lines(s.read("proc/self/mountinfo")) {
		// 35 31 0:32 /root /point options - type source options
		before, after, _ := strings.Cut(string(line), " - ")
		where, what := strings.Fields(before), strings.Fields(after)
		if len(where) < 5 || len(what) < 3 {
			continue
		}
		unified := what[0] == "cgroup2"
		if unified || what[0] == "cgroup" && slices.Contains(strings.Split(what[2], ","), "memory") {
			list = append(list, mount{where[3], where[4], unified})
		}
	}
	return list
}

// room returns the number of bytes left under the group's limit, given the number of bytes of free
// swap.
func (g group) room(s system, swap int64) number {
	limit, usage := s.number(g.dir+"/memory.limit_in_bytes"), s.number(g.dir+"/memory.usage_in_bytes")
	if g.unified {
		limit, usage = s.number(g.dir+"/memory.max"), s.number(g.dir+"/memory.current")
		if most := s.number(g.dir + "/memory.swap.max"); most.known {
			swap = min(swap, most.value-s.number(g.dir+"/memory.swap.current").value)
		}
	}
	return number{limit.value - usage.value + g.cache(s) + max(swap, 0), limit.known && usage.known}
}

// roomWithSwap returns the number of bytes left under the group's limit on the sum of memory and
// swap. Only version 1 has this limit.
func (g group) roomWithSwap(s system) number {
	limit, usage := s.number(g.dir+"/memory.memsw.limit_in_bytes"), s.number(g.dir+"/memory.memsw.usage_in_bytes")
	return number{limit.value - usage.value + g.cache(s), limit.known && usage.known}
}

// cache returns the number of bytes that are charged to the group and that the kernel can reclaim.
// In version 1, names with the prefix total_ include the subgroups.
func (g group) cache(s system) (bytes int64) {
	stat := s.table(g.dir+"/memory.stat", singleBytes)
	for _, name := range []string{"active_file", "inactive_file", "slab_reclaimable"} {
		n, ok := stat["total_"+name]
		if !ok {
			n = stat[name]
		}
		bytes += n.value
	}
	return bytes
}
