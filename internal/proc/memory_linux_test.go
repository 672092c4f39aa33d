package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Files of simulated systems.
const (
	meminfo = `MemTotal:       24683520 kB
MemFree:          900000 kB
MemAvailable:    4000000 kB
SwapTotal:        100000 kB
SwapFree:          50000 kB
CommitLimit:     9000000 kB
Committed_AS:    6500000 kB
`
	status = "Name:\tmquine\nVmPeak:\t 1500000 kB\nVmSize:\t 1200000 kB\nVmData:\t  300000 kB\n"
	limits = `Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max data size             %DATA%            unlimited            bytes
Max address space         %AS%            unlimited            bytes
`
	v1Mounts = `23 20 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:5 - cgroup cgroup rw,memory
`
	v2Mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	noLimit  = "9223372036854771712\n"
)

func limited(as, data string) string {
	return strings.NewReplacer("%AS%", as, "%DATA%", data).Replace(limits)
}

// newSystem writes the files of a simulated system to a temporary folder.
func newSystem(t *testing.T, files map[string]string) system {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return system{root: root}
}

func TestRooms(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	const group = "memory limit of the control group"
	for name, c := range map[string]struct {
		files map[string]string
		want  []Room
	}{
		"nothing is known": {},
		"the files are malformed": {files: map[string]string{
			"proc/meminfo": "MemAvailable:\nfoo", "proc/self/status": "VmSize: x kB",
			"proc/self/limits": "Max address space",
			"proc/self/cgroup": "0\n:\n0::/a\n", "proc/self/mountinfo": "1 2 - cgroup2\n" + v2Mounts,
			"sys/fs/cgroup/a/memory.max": "none", "sys/fs/cgroup/a/memory.current": "",
		}},
		"the machine": {
			files: map[string]string{
				"proc/meminfo": meminfo, "proc/self/status": status,
				"proc/self/limits": limited("unlimited", "unlimited"),
			},
			want: []Room{{4_050_000 * kib, "free memory of the machine"}},
		},
		"an old kernel does not report the available memory": {
			files: map[string]string{"proc/meminfo": "MemFree: 5 kB\nSwapFree: 7 kB\n"},
		},
		"limits of the process": {
			files: map[string]string{"proc/self/status": status,
				"proc/self/limits": limited("4096000000", "1024000000")},
			want: []Room{
				{4_096_000_000 - 1_200_000*kib, "limit of the address space, ulimit -v"},
				{1_024_000_000 - 300_000*kib, "limit of the data segment, ulimit -d"},
			},
		},
		"a limit without the amount in use": {
			files: map[string]string{"proc/self/limits": limited("4096000000", "unlimited")},
		},
		"a machine that does not overcommit": {
			files: map[string]string{"proc/meminfo": meminfo, "proc/sys/vm/overcommit_memory": "2\n"},
			want: []Room{
				{2_500_000 * kib, "commit limit of the machine, vm.overcommit_memory = 2"},
				{4_050_000 * kib, "free memory of the machine"},
			},
		},
		"version 2, where the parent group has a limit too": {
			files: map[string]string{
				"proc/self/cgroup": "0::/user.slice/job\n", "proc/self/mountinfo": v2Mounts,
				"sys/fs/cgroup/user.slice/job/memory.max":     "max\n",
				"sys/fs/cgroup/user.slice/job/memory.current": "1000\n",
				"sys/fs/cgroup/user.slice/memory.max":         "1073741824\n",
				"sys/fs/cgroup/user.slice/memory.current":     "500000000\n",
				"sys/fs/cgroup/user.slice/memory.stat": "file 400000000\nactive_file 100000000\n" +
					"inactive_file 200000000\nslab_reclaimable 7\n",
			},
			want: []Room{{1_073_741_824 - 500_000_000 + 300_000_007, group}},
		},
		"version 2, both levels": {
			files: map[string]string{
				"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": v2Mounts,
				"sys/fs/cgroup/a/b/memory.max": "900\n", "sys/fs/cgroup/a/b/memory.current": "100\n",
				"sys/fs/cgroup/a/memory.max": "1000\n", "sys/fs/cgroup/a/memory.current": "950\n",
			},
			want: []Room{{800, group}, {50, group}},
		},
		"version 2 with swap": {
			files: map[string]string{
				"proc/meminfo":     "SwapFree: 10 kB\n",
				"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": v2Mounts,
				"sys/fs/cgroup/a/b/memory.max": "900\n", "sys/fs/cgroup/a/b/memory.current": "100\n",
				"sys/fs/cgroup/a/b/memory.swap.max": "50", "sys/fs/cgroup/a/b/memory.swap.current": "20",
				"sys/fs/cgroup/a/memory.max": "1000\n", "sys/fs/cgroup/a/memory.current": "950\n",
				"sys/fs/cgroup/a/memory.swap.max": "max",
			},
			want: []Room{{830, group}, {50 + 10*kib, group}},
		},
		"the root of a container's own namespace": {
			files: map[string]string{
				"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": v2Mounts,
				"sys/fs/cgroup/memory.max": "1000\n", "sys/fs/cgroup/memory.current": "400\n",
			},
			want: []Room{{600, group}},
		},
		"version 1": {
			files: map[string]string{
				"proc/self/cgroup": "5:cpuset:/elsewhere\n4:memory:/docker/abc\n", "proc/self/mountinfo": v1Mounts,
				"sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes":       "1048576000\n",
				"sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes":       "700000000\n",
				"sys/fs/cgroup/memory/docker/abc/memory.memsw.limit_in_bytes": "1000000000\n",
				"sys/fs/cgroup/memory/docker/abc/memory.memsw.usage_in_bytes": "800000000\n",
				"sys/fs/cgroup/memory/docker/abc/memory.stat": "active_file 1\ninactive_file 2\n" +
					"total_active_file 10\ntotal_inactive_file 20\n",
				"sys/fs/cgroup/memory/docker/memory.limit_in_bytes": noLimit,
				"sys/fs/cgroup/memory/docker/memory.usage_in_bytes": "1\n",
				"sys/fs/cgroup/memory/memory.limit_in_bytes":        noLimit,
				"sys/fs/cgroup/memory/memory.usage_in_bytes":        "1\n",
			},
			want: []Room{{348_576_030, group}, {200_000_030, "memory and swap limit of the control group"}},
		},
		"version 1 in a container whose mount begins at its group": {
			files: map[string]string{
				"proc/self/cgroup": "4:memory:/docker/abc/inner\n",
				"proc/self/mountinfo": "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - " +
					"cgroup cgroup rw,memory\n",
				"sys/fs/cgroup/memory/inner/memory.stat":     "active_file 1\n",
				"sys/fs/cgroup/memory/memory.limit_in_bytes": "5000\n",
				"sys/fs/cgroup/memory/memory.usage_in_bytes": "1000\n",
			},
			want: []Room{{4000, group}},
		},
		"a mount of other groups, and a group outside the namespace": {
			files: map[string]string{
				"proc/self/cgroup": "4:memory:/docker/abcdef\n0::/../a\n",
				"proc/self/mountinfo": "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - " +
					"cgroup cgroup rw,memory\n" + v2Mounts,
				"sys/fs/cgroup/memory/def/x":                 "",
				"sys/fs/cgroup/a/memory.max":                 "5000\n",
				"sys/fs/cgroup/a/memory.current":             "1000\n",
				"sys/fs/cgroup/memory/memory.limit_in_bytes": "5000\n",
				"sys/fs/cgroup/memory/memory.usage_in_bytes": "1000\n",
			},
		},
		"both versions, memory in the first": {
			files: map[string]string{
				"proc/self/cgroup": "4:cpu,memory:/x\n0::/x\n",
				"proc/self/mountinfo": "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,cpu,memory\n" +
					"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
				"sys/fs/cgroup/unified/x/cgroup.procs":         "1\n",
				"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "3000\n",
				"sys/fs/cgroup/memory/x/memory.usage_in_bytes": "1000\n",
			},
			want: []Room{{2000, group}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.ElementsMatch(t, c.want, newSystem(t, c.files).rooms())
		})
	}

	s := newSystem(t, map[string]string{"proc/self/status": status,
		"proc/self/limits": limited("4096000000", "unlimited")})
	s.idle = 5 * mib
	assert.Equal(t, []Room{{4_096_000_000 - 1_200_000*kib + 5*mib, "limit of the address space, ulimit -v"}}, s.rooms(),
		"the idle part of the heap is available")
}

// limitProbe names the environment variable that makes the test binary measure how much memory it
// can map.
const limitProbe = "MQUINE_TEST_LIMIT"

func TestMain(m *testing.M) {
	if os.Getenv(limitProbe) != "" {
		probe()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// probe prints the name of the limit, and whether the process can map a little more and a little
// less memory than the room outside the heap. A thread that the runtime starts meanwhile needs up
// to 72 MiB of address space, including the arenas of the C library, so probe tries again until the
// room stays the same during an attempt.
func probe() {
	const little = 16 << 20
	outside := func() (int64, string) {
		room := AvailableMemory()
		return room.Bytes - idleHeap(), room.Limit
	}
	try := func(bytes int64) bool {
		const flags = unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_NORESERVE
		mapping, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, flags)
		if err != nil {
			return false
		}
		return unix.Munmap(mapping) == nil
	}
	for range 100 {
		before, limit := outside()
		larger, smaller := try(before+little), try(before-little)
		after, _ := outside()
		if change := after - before; -little/2 < change && change < little/2 {
			fmt.Print(limit, larger, smaller)
			return
		}
	}
	fmt.Print("the room changed in every attempt")
}

// TestLimitsOfChild compares the room with the limits that the kernel enforces.
func TestLimitsOfChild(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for flag, limit := range map[string]string{
		"-v": "limit of the address space, ulimit -v", "-d": "limit of the data segment, ulimit -d",
	} {
		cmd := exec.Command("sh", "-c", "ulimit "+flag+" 3000000 && exec "+self)
		cmd.Env = append(os.Environ(), limitProbe+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Skipf("ulimit %s: %v: %s", flag, err, out)
		}
		if strings.Contains(string(out), "machine") {
			t.Skip("the machine has less memory than the limit")
		}
		assert.Equal(t, limit+"false true", string(out))
	}
}
