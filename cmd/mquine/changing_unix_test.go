//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// trigger is a reader and a writer that calls act once: at the first read, or at the first write
// that contains mark.
type trigger struct {
	io.Reader
	io.Writer
	mark string
	act  func()
	once sync.Once
}

func (g *trigger) Read(p []byte) (int, error) {
	g.once.Do(g.act)
	return g.Reader.Read(p)
}

func (g *trigger) Write(p []byte) (int, error) {
	if strings.Contains(string(p), g.mark) {
		g.once.Do(g.act)
	}
	return g.Writer.Write(p)
}

// TestChangingCheckpoint changes the checkpoint after the command has opened it and before the
// command prints results: at a certain message, or when the command first reads standard input. If
// files are replaced, the results must belong to the opened checkpoint. After any other change, the
// command must fail without results.
func TestChangingCheckpoint(t *testing.T) {
	w := newWorkplace(t)
	other := w.another(t)
	opened := w.path("opened")
	path := filepath.Join(opened, "model.safetensors")
	test, err := os.ReadFile(filepath.Join(w.data, "test.txt"))
	require.NoError(t, err)
	triple := strings.Split(string(test), "\t")
	query := triple[0] + "\t" + triple[1] + "\t?\n"
	json, ranks := w.path("report.json"), w.path("ranks.tsv")
	commands := map[string]struct {
		args []string
		mark string // part of a message between the opening and the results
	}{
		"eval": {[]string{"eval", "-v", opened, "--data", w.data, "--json", json, "--ranks", ranks},
			"with mquine,"},
		"predict":        {[]string{"predict", opened, "--data", w.data, "--in", "-"}, "never"},
		"score":          {[]string{"score", opened, "--in", "-"}, "never"},
		"compare, base":  {[]string{"compare", opened, w.model, "--data", w.data, "--json", json}, "with opened in"},
		"compare, other": {[]string{"compare", w.model, opened, "--data", w.data, "--json", json}, "with opened in"},
	}
	contents, err := os.ReadFile(filepath.Join(other, "model.safetensors"))
	require.NoError(t, err)
	for name, c := range commands {
		for how, change := range map[string]func() error{
			"written": func() error {
				file, err := os.OpenFile(path, os.O_WRONLY, 0)
				if err != nil {
					return err
				}
				defer file.Close()
				_, err = file.Write(contents)
				return err
			},
			"cut":      func() error { return os.Truncate(path, 0) },
			"replaced": func() error { return os.Rename(filepath.Join(other, "model.safetensors"), path) },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				require.NoError(t, os.RemoveAll(opened))
				require.NoError(t, os.CopyFS(opened, os.DirFS(w.model)))
				require.NoError(t, os.WriteFile(filepath.Join(other, "model.safetensors"), contents, 0o644))
				_, _ = os.Remove(json), os.Remove(ranks)
				input := query
				if name == "score" {
					input = strings.SplitAfter(string(test), "\n")[0]
				}
				want := mquineReading(t, input, c.args...)
				require.Zero(t, want.status, want.stderr)
				_, _ = os.Remove(json), os.Remove(ranks)

				var stdout, stderr bytes.Buffer
				changed := false
				g := &trigger{Reader: strings.NewReader(input), Writer: &stderr, mark: c.mark, act: func() {
					changed = true
					assert.NoError(t, change())
				}}
				status := executeTested(t.Context(), t, c.args, g, &stdout, g)
				require.True(t, changed)
				got := outcome{status, stdout.String(), stderr.String()}
				if how == "replaced" {
					require.Zero(t, status, got.stderr)
					require.Equal(t, want.stdout, got.stdout, "the results are for the checkpoint that was opened")
					return
				}
				got.requireSentence(t, exitFailed, path+" was changed while it was in use, so there are no results: "+
					"try again when no other program is writing to it")
				assert.Empty(t, got.stdout)
				assert.NoFileExists(t, json)
				assert.NoFileExists(t, ranks)
			})
		}
	}
}
