//go:build unix

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// within bounds the time that a signal takes to end the command, even on a busy machine under the
// race detector.
const within = 5 * time.Second

// interrupt starts the command and waits until its standard error shows a line with the text. If
// the text is empty, it does not wait. It sends the signal a little later and returns how the
// command ended.
func interrupt(t *testing.T, cmd *exec.Cmd, text string, with os.Signal) outcome {
	t.Helper()
	// Handle the signal here, so that the command does not ignore it even if the tests run under nohup or in
	// the background of a shell script.
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, with)
	defer signal.Stop(handled)

	var stdout strings.Builder
	cmd.Stdout = &stdout
	pipe, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	stderr := bufio.NewReader(pipe)
	for line := ""; text != "" && !strings.Contains(line, text); {
		line, err = stderr.ReadString('\n')
		require.NoError(t, err, "the command ended before it wrote %q", text)
	}
	time.Sleep(300 * time.Millisecond)
	sent := time.Now()
	require.NoError(t, cmd.Process.Signal(with))
	rest, err := io.ReadAll(stderr)
	require.NoError(t, err)
	_ = cmd.Wait() // the test checks the status
	assert.Less(t, time.Since(sent), within)
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), string(rest)}
}

func TestInterrupt(t *testing.T) {
	dir := t.TempDir()
	data, model := filepath.Join(dir, "zipf"), filepath.Join(dir, "checkpoint")
	succeed(t, "data", "make", "zipf", "--out", data, "--entities", "12000")
	succeed(t, "init", "--model", "mquine", "--dim", "48", "--data", data, "--out", model)

	t.Run("eval", func(t *testing.T) {
		for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
			cmd := command(t, "eval", "-v", model, "--data", data, "--backend", "generic",
				"--ranks", filepath.Join(dir, "ranks.tsv"), "--json", filepath.Join(dir, "report.json"))
			o := interrupt(t, cmd, "candidate features", signal)
			assert.Equal(t, outcome{exitInterrupted, "", "mquine eval: interrupted\n"}, o)
			requireFiles(t, dir, "zipf", "checkpoint")
		}
	})
	t.Run("profile", func(t *testing.T) {
		profiles := t.TempDir()
		cmd := command(t, "eval", "-v", model, "--data", data, "--backend", "generic", "--profile", "cpu",
			"--profile-dir", profiles)
		o := interrupt(t, cmd, "candidate features", os.Interrupt)
		path := filepath.Join(profiles, "cpu.pprof")
		assert.Equal(t, outcome{exitInterrupted, "", "profile: go tool pprof " + path +
			"\nmquine eval: interrupted\n"}, o)
		requireFiles(t, profiles, "cpu.pprof")
		assert.Regexp(t, `(?s)command: .*mquine eval.*phase: .*(data|features|kernel)`, pprofTags(t, path))
	})
	t.Run("init", func(t *testing.T) {
		out := filepath.Join(dir, "other")
		cmd := command(t, "init", "--model", "mquine", "--dim", "48", "--data", data, "--out", out, "--kind",
			"clustered", "--backend", "generic")
		o := interrupt(t, cmd, "fitting", os.Interrupt)
		assert.Equal(t, outcome{exitInterrupted, "", "mquine init: interrupted\n"}, o)
		requireFiles(t, dir, "zipf", "checkpoint")
	})
	t.Run("random init", func(t *testing.T) {
		// Drawing and writing 400 MB takes seconds.
		init := []string{"init", "--model", "mquine", "--dim", "128", "--data", data, "--out",
			filepath.Join(dir, "other")}
		o := interrupt(t, command(t, init...), "", os.Interrupt)
		assert.Equal(t, outcome{exitInterrupted, "", "mquine init: interrupted\n"}, o)
		requireFiles(t, dir, "zipf", "checkpoint")

		cmd := command(t, init...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		require.NoError(t, cmd.Start())
		require.Eventually(t, func() bool {
			written, err := filepath.Glob(filepath.Join(dir, ".other.*", ".model.safetensors*"))
			return err == nil && len(written) > 0
		}, 5*time.Minute, time.Millisecond)
		sent := time.Now()
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait() // the test checks the status
		assert.Less(t, time.Since(sent), within)
		assert.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode())
		assert.Equal(t, "mquine init: interrupted\n", stderr.String())
		requireFiles(t, dir, "zipf", "checkpoint")
	})
	t.Run("info", func(t *testing.T) {
		o := interrupt(t, command(t, "info"), "", os.Interrupt)
		assert.Equal(t, outcome{exitInterrupted, "", "mquine info: interrupted\n"}, o)
	})
	t.Run("waiting for input", func(t *testing.T) {
		cmd := command(t, "predict", model, "--data", data, "--in", "-")
		input, err := cmd.StdinPipe()
		require.NoError(t, err)
		defer input.Close()
		o := interrupt(t, cmd, "reading queries from standard input", os.Interrupt)
		assert.Equal(t, outcome{exitInterrupted, "", "mquine predict: interrupted\n"}, o)
	})
	t.Run("demo", func(t *testing.T) {
		cmd := command(t, "demo")
		temporary := t.TempDir()
		cmd.Env = append(cmd.Env, "TMPDIR="+temporary)
		o := interrupt(t, cmd, "made families", os.Interrupt)
		assert.Equal(t, outcome{exitInterrupted, "", "mquine demo: interrupted\n"}, o)
		requireFiles(t, temporary)

		// An interrupted demo leaves nothing that the next demo would not replace.
		kept := filepath.Join(temporary, "kept")
		o = interrupt(t, command(t, "demo", "--keep", kept), "made families", os.Interrupt)
		assert.Equal(t, outcome{exitInterrupted, "", "mquine demo: interrupted\n"}, o)
		assert.NoDirExists(t, kept)
	})
}
