// Package proctest tests what package proc is for: estimates of memory, and what happens where there is too little.
package proctest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/proc"
)

// Leave makes it seem, until the test ends, as if the system left the process so much memory.
func Leave(t *testing.T, bytes int64) {
	before := proc.AvailableMemory
	t.Cleanup(func() { proc.AvailableMemory = before })
	proc.AvailableMemory = func() proc.Room { return proc.Room{Bytes: bytes, Limit: "a limit of the test"} }
}

// Job is work whose memory is estimated.
type Job struct {
	Name string
	// Prepare makes what the work begins with. It returns the estimate and the work.
	Prepare func(t *testing.T) ([]proc.Need, func() error)
}

// jobKey names the environment variable that makes a test do one job, of this number.
const jobKey = "MQUINE_TEST_JOB"

// CompareEstimates does each job in a process of its own, and compares what the process takes at its peak with
// the estimate: never more than that, so that nothing is refused which would succeed, and at least 70% of it.
// It must be the only thing that its test does.
func CompareEstimates(t *testing.T, jobs []Job) {
	if job, err := strconv.Atoi(os.Getenv(jobKey)); err == nil {
		needs, work := jobs[job].Prepare(t)
		debug.FreeOSMemory()
		before := residentMemory(t)
		require.NoError(t, work())
		fmt.Printf("took %d of %d\n%v\n", proc.PeakRSS()-before, proc.Total(needs), needs)
		return
	}
	if testing.Short() {
		t.Skip("takes some hundred MiB of memory")
	}
	residentMemory(t)
	self, err := os.Executable()
	require.NoError(t, err)
	for i, job := range jobs {
		cmd := exec.Command(self, "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), jobKey+"="+strconv.Itoa(i))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", job.Name, out)
		var took, estimate float64
		_, err = fmt.Sscanf(string(out), "took %f of %f", &took, &estimate)
		require.NoError(t, err, "%s: %s", job.Name, out)
		t.Logf("%s: estimated %.0f MB, took %.0f MB", job.Name, estimate/1e6, took/1e6)
		assert.Less(t, estimate, 1.02*took, "%s: %s", job.Name, out) // the heap had a little before
		assert.Greater(t, estimate, 0.7*took, "%s: %s", job.Name, out)
	}
}

// residentMemory returns the resident memory of now.
func residentMemory(t *testing.T) int64 {
	statm, err := os.ReadFile("/proc/self/statm")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the resident memory is not known on this system")
	}
	require.NoError(t, err)
	var pages, resident int64
	_, err = fmt.Sscan(string(statm), &pages, &resident)
	require.NoError(t, err)
	return resident * int64(os.Getpagesize())
}
