//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A run that is killed repeatedly ends with the same checkpoints as an undisturbed run.
func TestTrainKilled(t *testing.T) {
	data := smallFamilies(t)
	args := []string{"train", "--data", data, "--dim", "12", "--epochs", "20", "--batch", "64", "--ema", "0.5"}
	alone, killed := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "killed")
	succeed(t, append(args, "--out", alone)...)

	// The first kills come soon after the start, the others soon after the first epoch of a
	// process.
	kills := 0
	cmd := command(t, append(args, "--out", killed, "--threads", "1")...)
	for {
		wait := time.Duration(kills*7%30) * time.Millisecond
		pipe, err := cmd.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		var stderr strings.Builder
		for lines := bufio.NewScanner(pipe); kills > 2 && lines.Scan(); {
			fmt.Fprintln(&stderr, lines.Text())
			if strings.HasPrefix(lines.Text(), "epoch ") {
				break
			}
		}
		timer := time.AfterFunc(wait, func() { _ = cmd.Process.Kill() })
		_, err = io.Copy(&stderr, pipe)
		require.NoError(t, err)
		err = cmd.Wait()
		timer.Stop()
		if err == nil {
			break
		}
		require.Equal(t, -1, cmd.ProcessState.ExitCode(), stderr.String())
		kills++
		if _, err := os.Stat(killed); err == nil {
			cmd = command(t, "train", "--resume", killed)
		} else {
			cmd = command(t, append(args, "--out", killed, "--threads", "1")...)
		}
	}
	t.Log("killed", kills, "times")
	assert.Positive(t, kills)
	requireFiles(t, killed, trainingFiles...)
	for _, file := range []string{"last", "best"} {
		requireFiles(t, filepath.Join(killed, file), "entities.tsv", "relations.tsv", "model.safetensors")
		want := must1(os.ReadFile(filepath.Join(alone, file, "model.safetensors")))
		assert.Equal(t, want, must1(os.ReadFile(filepath.Join(killed, file, "model.safetensors"))), file)
	}
	assert.Equal(t, 20, strings.Count(string(must1(os.ReadFile(filepath.Join(killed, "log.jsonl")))), "\n"))
}

// A second process cannot train in the same folder until the first has ended.
func TestTrainLocksItsFolder(t *testing.T) {
	data, dir := smallFamilies(t), filepath.Join(t.TempDir(), "run")
	cmd := command(t, "train", "--data", data, "--out", dir, "--dim", "8", "--epochs", "1000000")
	pipe, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(pipe)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "epoch 1/") {
	}
	mquine(t, "train", "--resume", dir).requireSentence(t, exitFailed,
		"another process is using "+dir+": wait until it ends, or stop it")
	require.NoError(t, cmd.Process.Kill())
	_, err = io.Copy(io.Discard, pipe)
	require.NoError(t, err)
	require.Error(t, cmd.Wait())

	cmd = command(t, "train", "--resume", dir)
	assert.Equal(t, exitInterrupted, interrupt(t, cmd, "epoch ", os.Interrupt).status)
}

func TestTrainInterrupted(t *testing.T) {
	data, dir := smallFamilies(t), filepath.Join(t.TempDir(), "run")
	cmd := command(t, "train", "--data", data, "--out", dir, "--dim", "40", "--epochs", "1000",
		"--valid-every", "1")
	o := interrupt(t, cmd, "epoch 1/1000  loss", os.Interrupt)
	assert.Equal(t, exitInterrupted, o.status)
	assert.True(t, strings.HasSuffix(o.stderr,
		"mquine train: interrupted; to continue: mquine train --resume "+dir+"\n"), o.stderr)
	requireFiles(t, dir, trainingFiles...)
}
