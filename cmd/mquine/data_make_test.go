package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/synth"
)

// dataMake runs `mquine data make` and returns what it printed to standard error.
func dataMake(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := newDataMakeCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	err := cmd.ExecuteContext(context.Background())
	assert.Empty(t, stdout.String())
	return stderr.String(), err
}

func TestDataMakeFamilies(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "clan")
	report, err := dataMake(t, "families", "--out", dir, "--entities", "100", "--train", "700", "--valid", "30",
		"--test", "40", "--seed", "9")
	require.NoError(t, err)
	assert.Contains(t, report, "100 entities, 17 relations, 700 training, 30 validation and 40 test triples")
	assert.Contains(t, report, "has_parent, lives_in, lives_in")

	want, _, err := synth.Families(context.Background(), synth.Config{Entities: 100, Train: 700, Valid: 30, Test: 40,
		Seed: 9})
	require.NoError(t, err)
	requireWritten(t, dir, want)
}

func TestDataMakeZipf(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shape")
	report, err := dataMake(t, "zipf", "--out", dir, "--entities", "1000")
	require.NoError(t, err)
	assert.Contains(t, report, "1,000 entities, 37 relations, 8,759 training, 40 validation and 40 test triples")

	want, groups, err := synth.Zipf(context.Background(), synth.Config{Entities: 1000, Seed: 1})
	require.NoError(t, err)
	got := requireWritten(t, dir, want)
	for e, label := range got.Entities.Labels() {
		group, ok := synth.Group(label)
		require.True(t, ok, label)
		require.Equal(t, int(groups[e]), group, label)
	}
}

// requireWritten checks that the folder holds the graph want.
func requireWritten(t *testing.T, dir string, want *kg.Graph) *kg.Graph {
	t.Helper()
	got, err := kg.Open(context.Background(), dir)
	require.NoError(t, err)
	require.Equal(t, want.Entities.Labels(), got.Entities.Labels())
	require.Equal(t, want.Relations.Labels(), got.Relations.Labels())
	require.Equal(t, want.Splits, got.Splits)
	return got
}

func TestDataMakeRefuses(t *testing.T) {
	existing := t.TempDir()
	for name, args := range map[string][]string{
		"already exists":                   {"families", "--out", existing, "--entities", "3"}, // before the sizes
		"cannot go to standard output":     {"zipf", "--out", "-"},
		"too few":                          {"families", "--out", filepath.Join(existing, "a"), "--entities", "3"},
		"must be a whole number":           {"zipf", "--out", filepath.Join(existing, "b"), "--test", "0"},
		"give families or zipf":            {},
		"unknown command \"bogus\"":        {"bogus"},
		"required flag(s) \"out\"":         {"zipf"},
		"unexpected argument \"families\"": {"zipf", "families", "--out", filepath.Join(existing, "c")},
	} {
		_, err := dataMake(t, args...)
		require.ErrorContains(t, err, name)
		assert.NotContains(t, err.Error(), "\n")
	}
	left, err := os.ReadDir(existing)
	require.NoError(t, err)
	assert.Empty(t, left)
}
