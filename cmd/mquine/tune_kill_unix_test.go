//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
)

// A search that is killed repeatedly ends with the same results and checkpoints as an undisturbed
// search.
func TestTuneKilled(t *testing.T) {
	data, space := smallFamilies(t), spaceFile(t, smallSpace)
	args := []string{"tune", "--data", data, "--space", space, "--trials", "6"}
	alone, killed := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "killed")
	succeed(t, append(args, "--out", alone)...)

	kills := 0
	// Wait longer each time, so that the search ends on any machine.
	for wait := 20 * time.Millisecond; ; wait += 20 * time.Millisecond {
		cmd := command(t, "tune", "--resume", killed)
		if _, err := os.Stat(killed); err != nil {
			cmd = command(t, append(args, "--out", killed, "--threads", "1")...)
		}
		require.NoError(t, cmd.Start())
		timer := time.AfterFunc(wait, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		timer.Stop()
		if err == nil {
			break
		}
		require.Equal(t, -1, cmd.ProcessState.ExitCode())
		kills++
	}
	t.Log("killed", kills, "times")
	trials := func(dir string) string {
		text := string(must1(os.ReadFile(filepath.Join(dir, "trials.jsonl"))))
		return regexp.MustCompile(`"processor_minutes":[^,}]*`).ReplaceAllString(text, "")
	}
	assert.Equal(t, trials(alone), trials(killed))
	for _, file := range []string{"best.yaml", "trial-001/last/model.safetensors", "trial-006/best/model.safetensors"} {
		assert.Equal(t, must1(os.ReadFile(filepath.Join(alone, file))),
			must1(os.ReadFile(filepath.Join(killed, file))), file)
	}
	requireFiles(t, killed, "search.yaml", "space.yaml", "trials.jsonl", "trials.svg", "best.yaml", "trial-001",
		"trial-002", "trial-003", "trial-004", "trial-005", "trial-006")
}

// After Ctrl-C, a search prints its table, writes the file of --json and says once how to continue it.
func TestTuneInterrupted(t *testing.T) {
	data, dir := smallFamilies(t), filepath.Join(t.TempDir(), "search")
	result := dir + ".json"
	space := spaceFile(t, "dim: 4\nepochs: 1000000\nvalid_every: 1\n"+
		"learning_rate: {min: 1e-3, max: 1e-1, scale: log}\n")
	cmd := command(t, "tune", "--data", data, "--space", space, "--rungs", "13", "--budget", "24h", "--out", dir,
		"--json", result)
	o := interrupt(t, cmd, "trial 2  epoch 2/1000000  ", os.Interrupt)
	assert.Equal(t, exitInterrupted, o.status)
	assert.Regexp(t, `(?s)^trial  epochs  mrr.*To finish its run:\n  mquine train --resume .*`, o.stdout)
	assert.NotContains(t, o.stdout, "tune --resume")
	assert.True(t, strings.HasSuffix(o.stderr, "mquine tune: interrupted; to continue: mquine tune --resume "+dir+
		"\n"), o.stderr)
	g, err := kg.Open(t.Context(), data)
	require.NoError(t, err)
	var found searchResult
	require.NoError(t, json.Unmarshal(must1(os.ReadFile(result)), &found))
	assert.True(t, found.Stopped)
	assert.Equal(t, must1(g.SHA256(t.Context())), found.Provenance.Data.SHA256)
}
