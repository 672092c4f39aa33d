package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pprofTags returns the labels of a profile, as go tool pprof prints them.
func pprofTags(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.Command("go", "tool", "pprof", "-tags", path).CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

func TestProfile(t *testing.T) {
	w := newWorkplace(t)
	eval := []string{"eval", w.model, "--data", w.data}
	mquine(t, append(eval, "--profile-dir", w.path("unused"))...).requireSentence(t, exitUsage,
		"--profile-dir needs --profile")
	plain := succeed(t, eval...)
	for kind, tool := range map[string]string{
		"cpu": "go tool pprof cpu.pprof", "mem": "go tool pprof mem.pprof",
		"block": "go tool pprof block.pprof", "trace": "go tool trace trace.out",
	} {
		dir := w.path("my profiles", kind)
		o := succeed(t, append(eval, "--profile", kind, "--profile-dir", dir)...)
		assert.Equal(t, plain.stdout, o.stdout)
		program, file := tool[:strings.LastIndex(tool, " ")], tool[strings.LastIndex(tool, " ")+1:]
		assert.Contains(t, o.stderr, "profile: "+program+" '"+filepath.Join(dir, file)+"'\n")
		requireFiles(t, dir, file)
	}
}

// A command that fails still writes its profile, and fails in the same way.
func TestProfileOfAnError(t *testing.T) {
	dir := t.TempDir()
	o := mquine(t, "eval", filepath.Join(dir, "none"), "--data", filepath.Join(dir, "none"), "--profile",
		"cpu", "--profile-dir", dir)
	o.requireSentence(t, exitFailed, "mquine eval: ")
	assert.Contains(t, o.stderr, "profile: go tool pprof ")
	requireFiles(t, dir, "cpu.pprof")
}

func TestProfileWithoutAPlace(t *testing.T) {
	w := newWorkplace(t)
	file := w.path("file")
	require.NoError(t, os.WriteFile(file, nil, 0o666))
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		o := mquine(t, "info", w.model, "--profile", "cpu", "--profile-dir", dir)
		o.requireSentence(t, exitFailed, "cannot write the profile")
		assert.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
	}
}
