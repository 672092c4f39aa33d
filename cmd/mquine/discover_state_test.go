package main

import (
	"bytes"
	"context"
	"encoding/json"
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

	"github.com/mquine/mquine/internal/text"
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
		{state, strings.Replace(saved, "state/3", "state/2", 1),
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

// A folder that a killed process left without finished queries accepts any search.
func TestDiscoverStateWithoutQueries(t *testing.T) {
	dir := t.TempDir()
	reopen := func(search string) (*searchFolder, error) {
		folder, err := openSearch(dir, search)
		if err == nil {
			folder.close()
		}
		return folder, err
	}
	stray := filepath.Join(dir, ".state.json.0123456789abcdef.mquine-tmp")
	require.NoError(t, os.WriteFile(stray, []byte("{"), 0o644))
	_, err := reopen("a search")
	require.NoError(t, err, "killed before it wrote state.json")
	assert.NoFileExists(t, stray)
	part := filepath.Join(dir, "part-000000.tsv")
	require.NoError(t, os.WriteFile(part, []byte("a\t1\n"), 0o644))
	folder, err := reopen("another search")
	require.NoError(t, err, "killed before it counted the part")
	assert.Nil(t, folder.resume())
	assert.NoFileExists(t, part)

	folder, err = openSearch(dir, "another search")
	require.NoError(t, err)
	require.NoError(t, folder.save(rank.DiscoveryState{Queries: 1}))
	require.NoError(t, folder.savePending())
	folder.close()
	_, err = reopen("a search")
	require.ErrorContains(t, err, dir+" holds another search")
}

// A process that is killed while it removes the folder leaves a state that says where the result is.
func TestDiscoverStateFinished(t *testing.T) {
	dir, out := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "out.tsv")
	require.NoError(t, os.WriteFile(out, nil, 0o644))
	obstacle := filepath.Join(dir, "part-000001.tsv", "file")
	for _, search := range []string{"a search", "another search"} {
		folder, err := openSearch(dir, "a search")
		require.NoError(t, err)
		folder.add([]string{"a", "1"})
		require.NoError(t, folder.save(rank.DiscoveryState{Queries: 7}))
		require.NoError(t, folder.savePending())
		assert.False(t, folder.isFinished(out))
		require.NoError(t, os.MkdirAll(obstacle, 0o755))
		require.ErrorContains(t, folder.finish(out), "cannot remove "+filepath.Dir(obstacle))
		folder.close()
		require.NoError(t, os.RemoveAll(filepath.Dir(obstacle)))

		folder, err = openSearch(dir, search)
		require.NoError(t, err)
		if assert.Equal(t, search == "a search", folder.isFinished(out)) && search == "a search" {
			assert.False(t, folder.isFinished(out+".gz"))
			require.NoError(t, os.Remove(out))
			assert.False(t, folder.isFinished(out))
			require.NoError(t, folder.restart())
		}
		assert.Nil(t, folder.resume())
		lines, err := folder.savedLines()
		require.NoError(t, err)
		assert.Zero(t, lines)
		require.NoError(t, folder.finish(out))
		assert.NoDirExists(t, dir)
	}
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
	labels := filepath.Join(data, "labels.tsv")
	require.NoError(t, os.WriteFile(labels, []byte("e1\tone\n"), 0o644))
	succeed(t, "init", "--model", "distmult", "--dim", "4", "--data", data, "--out", model)
	exported := path("exported")
	succeed(t, "export", model, "--to", "npy", exported)
	plain, out, state := path("plain.tsv"), path("out.tsv"), path("state")
	// A change of a search adds arguments or changes files.
	type change struct {
		key   string // in the error
		args  []string
		files map[string]string
	}
	// interrupt interrupts and continues a search. A search with one of the changes cannot continue it.
	interrupt := func(t *testing.T, checkpoints []string, changes ...change) {
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
		for _, c := range changes {
			former := map[string][]byte{}
			for file, contents := range c.files {
				former[file] = must1(os.ReadFile(file))
				require.NoError(t, os.WriteFile(file, []byte(contents), 0o644))
			}
			mquine(t, append(slices.Clone(search), c.args...)...).
				requireSentence(t, exitFailed, state+" holds another search, with another value of "+c.key+": use ")
			for file, contents := range former {
				require.NoError(t, os.WriteFile(file, contents, 0o644))
			}
		}
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
	entitiesFile := filepath.Join(exported, "entities.tsv")
	swapped := strings.NewReplacer("e1\n", "e2\n", "e2\n", "e1\n").
		Replace(string(must1(os.ReadFile(entitiesFile))))
	trainFile, validFile := filepath.Join(data, "train.txt"), filepath.Join(data, "valid.txt")
	triples := string(must1(os.ReadFile(trainFile)))
	border := strings.LastIndex(strings.TrimSuffix(triples, "\n"), "\n") + 1
	interrupt(t, []string{exported},
		change{key: "side", args: []string{"--side", "head"}},
		change{key: "vocabulary_sha256", files: map[string]string{entitiesFile: swapped}},
		change{key: "splits", files: map[string]string{
			trainFile: triples[:border], validFile: triples[border:] + string(must1(os.ReadFile(validFile))),
		}},
		change{key: "labels_sha256", files: map[string]string{labels: "e1\tone\ne2\ttwo\n"}})
	interrupt(t, []string{model, model, "--ensemble", "1,0.5"},
		change{key: "checkpoint_sha256", args: []string{"--ensemble", "1,0.7"}})
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
		if contents, err := os.ReadFile(filepath.Join(state, "state.json")); interrupted && err == nil {
			var saved struct{ Queries int }
			require.NoError(t, json.Unmarshal(contents, &saved))
			done = saved.Queries == 65536
		}
		if !done {
			require.NoError(t, os.RemoveAll(state))
			require.NoError(t, os.RemoveAll(out))
		}
	}
	require.True(t, done)
	search = append(search, "--state", state)
	obstacle := filepath.Join(state, "part-000001.tsv") // ends the removal of the folder, as a kill may
	require.NoError(t, os.MkdirAll(filepath.Join(obstacle, "folder"), 0o755))
	o := mquine(t, search...)
	o.requireSentence(t, exitFailed, "cannot remove "+obstacle)
	assert.Contains(t, o.stderr, " after 65,536 queries\n")
	require.NoError(t, os.RemoveAll(obstacle))
	o = succeed(t, search...)
	assert.Contains(t, o.stderr,
		"note: an earlier command has found the triples and written "+out+": removing "+state+"\n")
	assert.NoDirExists(t, state)
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

// If the result of a finished search cannot be written, the search need not be repeated.
func TestDiscoverStateAfterFailedWrite(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skip("the system has no " + full)
	}
	for _, scope := range []string{"query", "relation", "graph"} {
		w, queries := newWorkplace(t), 1
		for _, name := range []string{"entities.tsv", "relations.tsv"} {
			labels, err := os.ReadFile(filepath.Join(w.model, name))
			require.NoError(t, err)
			queries *= bytes.Count(labels, []byte("\n"))
		}
		search := []string{"discover", w.model, "--data", w.data, "-k", "3", "--per", scope}
		want := succeed(t, append(search, "--format", "tsv")...).stdout
		search = append(search, "--state", filepath.Join(w.dir, "state"), "--out")
		mquine(t, append(search, full)...).requireSentence(t, exitFailed,
			"choose another place; the search is saved in "+filepath.Join(w.dir, "state")+": repeat the command")
		found := filepath.Join(w.dir, "found.tsv")
		saved := succeed(t, append(search, found)...)
		assert.Contains(t, saved.stderr, " after "+text.Comma(queries)+" queries\n", "all of them")
		got, err := os.ReadFile(found)
		require.NoError(t, err)
		assert.Equal(t, want, string(got), scope)
	}
}
