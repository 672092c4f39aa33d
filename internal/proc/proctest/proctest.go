// Package proctest supports tests of memory estimates and of behaviour under memory shortage.
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

// Leave makes proc.AvailableMemory report the given number of bytes until the test ends.
func Leave(t *testing.T, bytes int64) {
	before := proc.AvailableMemory
	t.Cleanup(func() { proc.AvailableMemory = before })
	proc.AvailableMemory = func() proc.Room { return proc.Room{Bytes: bytes, Limit: "a limit of the test"} }
}

// Job is a piece of work and an estimate of the memory that it needs.
type Job struct {
	Name string
	// Prepare creates the inputs of the work. It returns the estimate and the work.
	Prepare func(t *testing.T) ([]proc.Need, func() error)
}

// jobKey names the environment variable that holds the index of the job for a child process.
const jobKey = "MQUINE_TEST_JOB"

// CompareEstimates runs each job in a separate process and compares the estimate with the peak
// memory of the work. The estimate must be at least 70% of the peak. It must not exceed the peak by
// more than 2%, because work that would succeed must not be refused. The calling test must do
// nothing else.
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
		t.Skip("needs several hundred MiB of memory")
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
		assert.Less(t, estimate, 1.02*took, "%s: %s", job.Name, out) // the heap already held some memory
		assert.Greater(t, estimate, 0.7*took, "%s: %s", job.Name, out)
	}
}

// residentMemory returns the current resident memory of the process in bytes.
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
