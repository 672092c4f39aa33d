package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// discoverUntilSaved cancels a search with --state once it has saved triples, and returns its
// outcome.
func discoverUntilSaved(t *testing.T, state string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(state, "part-000000.tsv")); err == nil {
				cancel()
			}
			time.Sleep(100 * time.Microsecond)
		}
	}()
	return discoverWith(ctx, state, args...)
}

// discoverWith runs a search with --state.
func discoverWith(ctx context.Context, state string, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	status := execute(ctx, time.Now(), append(args, "--state", state), strings.NewReader(""), &stdout, &stderr)
	return outcome{status, stdout.String(), stderr.String()}
}

// An interrupted search saves the last batch, however short the time since the last save, but not
// the lines of an unfinished batch.
func TestDiscoverStateSavesOnInterruption(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	folder, err := openSearch(dir, "a search")
	require.NoError(t, err)
	folder.add([]string{"a", "1"})
	folder.add([]string{"b", "2"})
	kept := rank.Discovered{Triple: kg.Triple{Head: 1, Relation: 2, Tail: 3}, Rank: 1, Score: math.Inf(-1), Z: 0.5}
	require.NoError(t, folder.save(rank.DiscoveryState{Queries: 7, Kept: []rank.Discovered{kept}}))
	require.Zero(t, folder.state.Queries, "too early")
	folder.add([]string{"c", "3"})
	require.NoError(t, folder.savePending())
	require.NoError(t, folder.savePending(), "nothing is pending")
	folder.close()

	folder, err = openSearch(dir, "a search")
	require.NoError(t, err)
	defer folder.close()
	assert.Equal(t, &rank.DiscoveryState{Queries: 7, Kept: []rank.Discovered{kept}}, folder.resume())
	lines, err := folder.savedLines()
	require.NoError(t, err)
	assert.Equal(t, 2, lines)
	var text strings.Builder
	require.NoError(t, folder.copyLines(&text))
	assert.Equal(t, "a\t1\nb\t2\n", text.String())
}

// A search does not continue from files that have changed since they were saved, or that have no
// checksums.
func TestDiscoverStateDamaged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	part, state := filepath.Join(dir, "part-000000.tsv"), filepath.Join(dir, "state.json")
	folder, err := openSearch(dir, "a search")
	require.NoError(t, err)
	folder.add([]string{"a", "1", "0.25"})
	folder.add([]string{"b", "2", "0.125"})
	require.NoError(t, folder.save(rank.DiscoveryState{Queries: 1}))
	require.NoError(t, folder.savePending())
	folder.close()
	lines, saved := string(must1(os.ReadFile(part))), string(must1(os.ReadFile(state)))
	open := func() error {
		folder, err := openSearch(dir, "a search")
		if err != nil {
			return err
		}
		defer folder.close()
		_, err = folder.savedLines()
		return err
	}
	require.NoError(t, open())
	for _, c := range []struct{ path, contents, want string }{
		{part, lines[:len(lines)/2], part + " is damaged: remove " + dir + " and repeat the command"},
		{part, strings.Replace(lines, "0.25", "0.26", 1), part + " is damaged: remove " + dir},
		{part, "", part + " is missing: remove " + dir},
		{state, strings.Replace(saved, `"queries": 1`, `"queries": 2`, 1), state + " is damaged: remove " + dir},
		{state, `{"schema": "mquine.discover-state/1", "parts": 1}`,
			"is from an earlier version of mquine and lacks checksums: remove " + dir + " and repeat the command"},
	} {
		require.NoError(t, os.WriteFile(c.path, []byte(c.contents), 0o644))
		if c.contents == "" {
			require.NoError(t, os.Remove(c.path))
		}
		require.ErrorContains(t, open(), c.want)
		require.NoError(t, os.WriteFile(part, []byte(lines), 0o644))
		require.NoError(t, os.WriteFile(state, []byte(saved), 0o644))
	}
	require.NoError(t, open())
}

// A search that was interrupted and continued finds the same triples as a search without --state.
func TestDiscoverState(t *testing.T) {
	defer func(d time.Duration) { saveEvery = d }(saveEvery)
	saveEvery = 0
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	data, model := path("data"), path("checkpoint")
	require.NoError(t, os.Mkdir(data, 0o755))
	const entities, relations = 1500, 80 // more queries than a batch has
	var train strings.Builder
	for i := range entities {
		fmt.Fprintf(&train, "e%d\tr%d\te%d\n", i, i%relations, (7*i+3)%entities)
	}
	for _, split := range []string{"train", "valid", "test"} {
		require.NoError(t, os.WriteFile(filepath.Join(data, split+".txt"), []byte(train.String()), 0o644))
		train.Reset()
		train.WriteString("e1\tr0\te" + split + "\n")
	}
	succeed(t, "init", "--model", "distmult", "--dim", "4", "--data", data, "--out", model)
	plain, out, state := path("plain.tsv"), path("out.tsv"), path("state")
	// interrupt interrupts and continues a search. A search with the flags different cannot continue it.
	// The error names the key, too.
	interrupt := func(t *testing.T, checkpoints, different []string, key string) {
		search := append([]string{"discover", "--data", data, "--per", "relation", "-k", "5"}, checkpoints...)
		whole := succeed(t, append(slices.Clone(search), "--out", plain, "--force")...)
		search = append(search, "--out", out)
		interrupted := false
		for range 20 { // until a search is cancelled before it ends
			o := discoverUntilSaved(t, state, slices.Clone(search)...)
			if interrupted = o.status == exitInterrupted; interrupted {
				assert.Contains(t, o.stderr, "mquine discover: interrupted; to continue: repeat the command\n")
				assert.NoFileExists(t, out)
				break
			}
			require.NoError(t, os.Remove(out))
		}
		require.True(t, interrupted)

		search = append(search, "--state", state)
		mquine(t, append(slices.Clone(search), different...)...).
			requireSentence(t, exitFailed, state+" holds another search, with another value of "+key+": use ")
		part := filepath.Join(state, "part-000000.tsv")
		lines := must1(os.ReadFile(part))
		require.NoError(t, os.WriteFile(part, lines[:len(lines)/2], 0o644))
		mquine(t, search...).
			requireSentence(t, exitFailed, part+" is damaged: remove "+state+" and repeat the command")
		assert.NoFileExists(t, out)
		require.NoError(t, os.WriteFile(part, lines, 0o644))
		o := succeed(t, search...)
		assert.Regexp(t, `resuming the search in .* after \d+,\d+ queries\n`, o.stderr)
		found := regexp.MustCompile(`found [\d,]+ triples\n`)
		assert.Equal(t, found.FindString(whole.stderr), found.FindString(o.stderr))
		want, err := os.ReadFile(plain)
		require.NoError(t, err)
		got, err := os.ReadFile(out)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
		assert.NoDirExists(t, state)
		require.NoError(t, os.Remove(out))
	}
	interrupt(t, []string{model}, []string{"--side", "head"}, "side")
	interrupt(t, []string{model, model, "--ensemble", "1,0.5"}, []string{"--ensemble", "1,0.7"},
		"checkpoint_sha256")
	assert.Equal(t, ", with other values of k, per and side", differences(
		[]byte(`{"k": 1, "per": "query", "side": "tail", "order": "z"}`), []byte(`{"k":2,"per":"graph","order":"z"}`)))

	// Without a save in time, an interruption saves the batches that are done.
	saveEvery = time.Hour
	search := []string{"discover", model, "--data", data, "--per", "query", "-k", "2"}
	began := time.Now()
	succeed(t, append(search, "--out", plain, "--force")...)
	whole := time.Since(began)
	search = append(search, "--out", out)
	done := false
	for try := 0; try < 100 && !done; try++ { // until a search is cancelled in its second batch
		ctx, cancel := context.WithTimeout(t.Context(), whole*time.Duration(4+try%10)/10)
		canceled, stop := context.WithCancel(t.Context())
		context.AfterFunc(ctx, stop)
		interrupted := discoverWith(canceled, state, search...).status == exitInterrupted
		stop()
		cancel()
		if interrupted {
			_, err := os.Stat(filepath.Join(state, "part-000000.tsv"))
			done = err == nil
		}
		if !done {
			require.NoError(t, os.RemoveAll(state))
			require.NoError(t, os.RemoveAll(out))
		}
	}
	require.True(t, done)
	o := succeed(t, append(search, "--state", state)...)
	assert.Contains(t, o.stderr, " after 65,536 queries\n")
	want, err := os.ReadFile(plain)
	require.NoError(t, err)
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
	require.NoError(t, os.Remove(out))

	with := func(state string, more ...string) outcome {
		return mquine(t, append([]string{"discover", model, "--data", data, "--state", state}, more...)...)
	}
	with(data, "--out", out).requireSentence(t, exitFailed, data+" holds other files")
	with(path("new")).requireSentence(t, exitUsage, "--state DIR needs --out FILE")
	broken := path("broken")
	require.NoError(t, os.Mkdir(broken, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(broken, "state.json"), []byte("{"), 0o644))
	with(broken, "--out", out).requireSentence(t, exitFailed, "is not the state of a search")
}

// The end of a search removes the files in the folder of --state, so the result must not be there.
func TestDiscoverStateWithoutTheResult(t *testing.T) {
	w := newWorkplace(t)
	t.Chdir(w.dir)
	require.NoError(t, os.Mkdir("state", 0o755))
	require.NoError(t, os.Symlink("state", "link"))
	search := []string{"discover", w.model, "--data", w.data, "-k", "3"}
	for _, c := range [][2]string{
		{"state/part-000000.tsv", "state"}, {"link/x.tsv", "state"}, {"state/part-000000.tsv", "link"},
		{"state", "state"}, {"new", "./new"}, {"state", "."},
	} {
		mquine(t, append(search, "--out", c[0], "--state", c[1])...).requireSentence(t, exitUsage,
			"--out "+c[0]+" is in the folder of --state, which the command removes at the end: choose another file")
	}
	succeed(t, append(search, "--out", "state.tsv", "--state", "state")...)
	requireFiles(t, w.dir, "families", "checkpoint", "link", "state.tsv")
}
