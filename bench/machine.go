package bench

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/klauspost/cpuid/v2"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/ceiling"
)

// Machine describes the machine and the build that results come from.
type Machine struct {
	CPU  string
	Tier kernel.Tier
	// Features are the processor features that the tier's kernels use.
	Features kernel.Features
	Threads  int
	// Commit is the revision of the code, with +dirty if files were changed, and CommitTime is the
	// time of the commit. Both are empty if the build does not contain them.
	Commit     string
	CommitTime string
	// Ceiling is the best rate of float32 multiply-adds on one thread, in GFLOP/s.
	Ceiling float64
}

// ThisMachine describes this machine and build, and measures the ceiling.
func ThisMachine() (Machine, error) {
	backends, err := kernel.Available()
	if err != nil {
		return Machine{}, err
	}
	m := Machine{
		CPU:      strings.TrimSpace(cpuid.CPU.BrandName),
		Tier:     backends[0].Tier,
		Features: backends[0].Features,
		Threads:  threads(),
	}
	if m.CPU == "" {
		m.CPU = "unknown " + runtime.GOARCH
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		m.Commit, m.CommitTime = settings["vcs.revision"], settings["vcs.time"]
		if m.Commit != "" && settings["vcs.modified"] == "true" {
			m.Commit += "+dirty"
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l := newLimit(ceiling.Terms(backends[0], kernel.Dot))
	for range 50 {
		m.Ceiling = max(m.Ceiling, 2*l.sample()/1e9)
	}
	return m, nil
}

// Class returns the name of the folder for results from comparable machines. It contains the tier,
// because virtual machines often hide the processor's exact name. Only results with the same
// features are comparable.
func (m Machine) Class() string {
	var slug strings.Builder
	for _, r := range strings.ToLower(m.CPU) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			slug.WriteRune(r)
		case !strings.HasSuffix(slug.String(), "-"):
			slug.WriteByte('-')
		}
	}
	return fmt.Sprintf("%s-%v-%d-threads", strings.Trim(slug.String(), "-"), m.Tier, m.Threads)
}

// WriteBasics writes the configuration lines that go test prints itself.
func (m Machine) WriteBasics(w io.Writer) error {
	const format = "goos: %s\ngoarch: %s\npkg: github.com/mquine/mquine/bench\ncpu: %s\n"
	_, err := fmt.Fprintf(w, format, runtime.GOOS, runtime.GOARCH, m.CPU)
	return err
}

// WriteDetails writes the other configuration lines of the Go benchmark format, and comments that
// describe the run (see Result.Config).
func (m Machine) WriteDetails(w io.Writer) error {
	const format = "tier: %v\nfeatures: %v\nthreads: %d\n# commit: %s\n# commit-time: %s\n# measured: %s\n# go: %s\n" +
		"# ceiling: %.1f GFLOP/s FMA float32, %v, one thread\n"
	_, err := fmt.Fprintf(w, format, m.Tier, m.Features, m.Threads, cmp.Or(m.Commit, "unknown"),
		cmp.Or(m.CommitTime, "unknown"), time.Now().UTC().Format(time.RFC3339), runtime.Version(), m.Ceiling, m.Tier)
	return err
}
