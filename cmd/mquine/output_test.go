package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFullDisk prints to a device that is always full. Every command must fail.
func TestFullDisk(t *testing.T) {
	const device = "/dev/full"
	if _, err := os.Stat(device); err != nil {
		t.Skip(device + " does not exist on this system")
	}
	w := newWorkplace(t)
	for _, args := range [][]string{
		{"info"},
		{"info", w.model},
		{"info", w.model, "--json", "-"},
		{"data", "list"},
		{"data", "list", "--json", "-"},
		{"data", "info", w.data},
		{"eval", w.model, "--data", w.data},
		{"predict", w.model, "--data", w.data, "--head", "person_01", "--relation", "lives_in"},
		{"z", "stats", "--data", w.data},
	} {
		full, err := os.OpenFile(device, os.O_WRONLY, 0)
		require.NoError(t, err)
		cmd := command(t, args...)
		var stderr strings.Builder
		cmd.Stdout, cmd.Stderr = full, &stderr
		_ = cmd.Run() // the test checks the status
		require.NoError(t, full.Close())
		outcome{status: cmd.ProcessState.ExitCode(), stderr: stderr.String()}.
			requireSentence(t, exitFailed, "no space left on device")
	}
}

// TestOutputFollowsLinks writes a result through a symbolic link, which must not be replaced.
func TestOutputFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target.json"), filepath.Join(dir, "link.json")
	require.NoError(t, os.WriteFile(target, []byte("old"), 0o644))
	require.NoError(t, os.Symlink("target.json", link))
	t.Setenv("MQUINE_DATA", dir)
	succeed(t, "data", "list", "--json", link)
	info, err := os.Lstat(link)
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&os.ModeSymlink)
	assert.Contains(t, string(must1(os.ReadFile(target))), "mquine.data-list/1")

	none := filepath.Join(dir, "none", "f.json")
	o := mquine(t, "data", "list", "--json", none)
	assert.Equal(t, outcome{exitFailed, "", "mquine data list: cannot write " + none +
		": no such file or directory\n"}, o)
}

func TestSizes(t *testing.T) {
	assert.Equal(t, "1 entity, 1 relation", sizes(1, 1))
	assert.Equal(t, "1,000 entities, 2 relations", sizes(1000, 2))
}
