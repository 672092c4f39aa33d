//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// atOnce runs several processes of a command at once and returns their outcomes.
func atOnce(t *testing.T, n int, args ...string) []outcome {
	t.Helper()
	outcomes := make([]outcome, n)
	var all sync.WaitGroup
	for i := range n {
		cmd := command(t, args...)
		all.Go(func() {
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run() // the test checks the status
			outcomes[i] = outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
		})
	}
	all.Wait()
	return outcomes
}

// If several commands create the same folder at once, exactly one succeeds. The others report an
// error.
func TestOneMakesTheFolder(t *testing.T) {
	w := newWorkplace(t)
	space := spaceFile(t, smallSpace)
	for _, c := range []struct{ name, args string }{
		{"init", "init --model mquine --dim 6 --data " + w.data},
		{"train", "train --data " + w.data + " --dim 4 --epochs 2"},
		{"tune", "tune --data " + w.data + " --space " + space + " --trials 1"},
		{"data make", "data make families --entities 60"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 3 {
				parent := t.TempDir()
				out := filepath.Join(parent, "out")
				won := 0
				for _, o := range atOnce(t, 3, append(strings.Fields(c.args), "--out", out)...) {
					if o.status == exitOK {
						won++
						continue
					}
					require.Regexp(t, `already exists|another process is using `, o.stderr)
					o.requireSentence(t, exitFailed, out)
					assert.NotContains(t, o.stderr, "mquine-tmp")
				}
				assert.Equal(t, 1, won)
				requireFiles(t, parent, "out")
			}
		})
	}
}

// If several evaluations write the same file at once, the complete file of one of them remains.
func TestOneFileOfSeveralEvaluations(t *testing.T) {
	w := newWorkplace(t)
	path := w.path("o.json")
	for _, o := range atOnce(t, 4, "eval", w.model, "--data", w.data, "--json", path) {
		require.Equal(t, exitOK, o.status, o.stderr)
	}
	assert.True(t, json.Valid(must1(os.ReadFile(path))))
	requireFiles(t, w.dir, "families", "checkpoint", "o.json")
}
