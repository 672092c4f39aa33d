//go:build unix

package main

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Under an address-space limit that the system enforces, the command reports an error. Without the
// memory check, the command would crash with a stack trace.
func TestAddressSpaceLimit(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the limit is not enforced or not known on this system")
	}
	dir := t.TempDir()
	data, out := filepath.Join(dir, "zipf"), filepath.Join(dir, "out")
	succeed(t, "data", "make", "zipf", "--out", data, "--entities", "14541", "--relations", "237", "--train", "20000")
	limited := func(args ...string) (string, int) {
		cmd := command(t, args...)
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `ulimit -v 4000000 && exec "$0" "$@"`}, cmd.Args...)
		text, err := cmd.CombinedOutput()
		if err != nil {
			require.IsType(t, new(exec.ExitError), err)
		}
		return string(text), cmd.ProcessState.ExitCode()
	}
	if text, status := limited("--version"); status != 0 { // for example, under the race detector
		t.Skipf("the command does not start under the limit: %s", text)
	}
	for _, args := range [][]string{
		{"init", "--model", "mquine", "--dim", "512", "--data", data, "--out", out},
		{"train", "--dim", "512", "--data", data, "--out", out},
	} {
		text, status := limited(args...)
		assert.Equal(t, exitFailed, status, text)
		assert.Regexp(t,
			`^mquine (init|train): (creat|train)ing mquine, d = 512, .* needs about \d+(\.\d)? GiB of memory `+
				`\(parameters 7\.8 GiB.*\), but only \d\.\d GiB is available `+
				`\(limit of the address space, ulimit -v\): lower .*\n$`, text)
		requireFiles(t, dir, "zipf")
	}
	// Work that fits succeeds under the same limit.
	text, status := limited("init", "--model", "mquine", "--dim", "128", "--data", data, "--out", out)
	assert.Zero(t, status, text)
}
