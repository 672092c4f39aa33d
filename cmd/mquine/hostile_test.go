package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/checkpoint/safetensors"
)

const (
	// hostileLabel would set the clipboard and the colour of a terminal, reverse the reading order
	// and hide characters. In a document, it could become a script, a link, code and two table
	// cells.
	hostileLabel = "\x1b]52;c;cm0gLXJmIH4=\a\b\x7f\u009b31m\u202e\u2066\u200b\u2028" +
		"<script>alert(1)<-script>|`[x](javascript:alert(1))"
	// hostileName also starts a new line, which a label cannot do.
	hostileName = hostileLabel + "\nINJECTED\r\t\x1b[2J"
)

// hostileWorkplace contains a data set and checkpoints in which every label, name, metadata entry
// and folder is hostile.
type hostileWorkplace struct {
	workplace
	head, relation, tail string // a training triple
	other, odd           string // another checkpoint, and one that eval refuses
}

func newHostileWorkplace(t *testing.T) hostileWorkplace {
	t.Helper()
	plain := newWorkplace(t)
	dir := plain.path(hostileName)
	w := hostileWorkplace{workplace: workplace{dir, filepath.Join(dir, "d"+hostileName),
		filepath.Join(dir, "c"+hostileName)}}
	w.other, w.odd = w.path("o"+hostileName), w.path("odd"+hostileName)

	g, err := kg.Open(t.Context(), plain.data)
	require.NoError(t, err)
	for _, v := range []**kg.Vocabulary{&g.Entities, &g.Relations} {
		labels := slices.Clone((*v).Labels())
		for i := range labels {
			labels[i] = hostileLabel + labels[i]
		}
		*v = kg.NewVocabulary(labels...)
	}
	first := g.Splits[kg.Train][0]
	w.head, w.relation, w.tail = g.Entities.Label(first.Head), g.Relations.Label(first.Relation), g.Entities.Label(
		first.Tail)
	g.Splits[kg.Train] = append(g.Splits[kg.Train], first) // a duplicate, which causes a note
	require.NoError(t, kg.Write(t.Context(), w.data, g))

	made := w.path("made")
	succeed(t, "init", "--model", "mquine", "--dim", "6", "--data", w.data, "--out", made)
	hostile := func(metadata map[string]string) {
		metadata["dataset"], metadata[hostileName], metadata["note"] = hostileName, hostileName, hostileName
	}
	rewriteMetadata(t, made, w.model, hostile)
	rewriteMetadata(t, made, w.other, hostile)
	rewriteMetadata(t, made, w.odd, func(metadata map[string]string) {
		hostile(metadata)
		metadata["entities_sha256"] = hostileName
	})
	return w
}

// rewriteMetadata copies a checkpoint and changes its metadata.
func rewriteMetadata(t *testing.T, from, to string, change func(map[string]string)) {
	t.Helper()
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	rewriteSafetensors(t, filepath.Join(from, "model.safetensors"), filepath.Join(to, "model.safetensors"), change)
}

// rewriteSafetensors copies a file, changes its metadata and adds a tensor for each name.
func rewriteSafetensors(t *testing.T, from, to string, change func(map[string]string), names ...string) {
	t.Helper()
	file, err := safetensors.Open(from)
	require.NoError(t, err)
	defer file.Close()
	var tensors []safetensors.Float32
	for _, tensor := range file.Tensors() {
		values, err := file.Float32(tensor.Name)
		require.NoError(t, err)
		tensors = append(tensors, safetensors.Float32{Name: tensor.Name, Shape: tensor.Shape,
			Values: slices.Clone(values)})
	}
	for _, name := range names {
		tensors = append(tensors, safetensors.Float32{Name: name, Shape: []int{1}, Values: []float32{1}})
	}
	metadata := maps.Clone(file.Metadata())
	change(metadata)
	require.NoError(t, safetensors.WriteFile(t.Context(), to, metadata, tensors...))
}

// requireHarmless checks that shown contains no control characters except line feeds and tabs, no
// invisible characters, and no line that hostileName started.
func requireHarmless(t *testing.T, shown string) {
	t.Helper()
	require.True(t, utf8.ValidString(shown), "%q", shown)
	for _, r := range shown {
		if r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			require.Failf(t, "a control or hidden character", "%q in %q", r, shown)
		}
	}
	require.NotContains(t, shown, "\nINJECTED")
}

// TestHostileText runs commands that show hostile labels, names and metadata. Their output and
// their files must be harmless.
func TestHostileText(t *testing.T) {
	w := newHostileWorkplace(t)
	subject := []string{w.model, "--data", w.data}
	files := func(names ...string) string { return w.path(append([]string{"files"}, names...)...) }
	require.NoError(t, os.MkdirAll(files(), 0o755))
	file := func(name, text string) string {
		require.NoError(t, os.WriteFile(files(name), []byte(text), 0o644))
		return files(name)
	}

	tensors := w.path("tensors" + hostileName)
	require.NoError(t, os.CopyFS(tensors, os.DirFS(w.model)))
	rewriteSafetensors(t, filepath.Join(w.model, "model.safetensors"), filepath.Join(tensors, "model.safetensors"),
		func(map[string]string) {}, hostileName)
	lacking := w.path("lacking" + hostileName)
	require.NoError(t, os.MkdirAll(lacking, 0o755))
	for _, split := range []string{"train", "valid", "test"} {
		require.NoError(t, os.WriteFile(filepath.Join(lacking, split+".txt"),
			[]byte(w.head+"\t"+w.relation+"\tnew"+hostileLabel+"\n"), 0o644))
	}
	plain := workplace{w.dir, w.data, w.model}
	rotate, vocabulary := plain.writeRotate(t, "DistMult", 6, false, false)
	options := map[string]any{}
	require.NoError(t, json.Unmarshal(must1(os.ReadFile(filepath.Join(rotate, "config.json"))), &options))
	options["data_path"], options[hostileName] = "no/"+hostileName, hostileName
	require.NoError(t, os.WriteFile(filepath.Join(rotate, "config.json"), must1(json.Marshal(options)), 0o644))

	search, measured := w.path("search"+hostileName), w.path("measured"+hostileName)
	space := file("space"+hostileName, "dim: 4\nepochs: 2\nbatch: {choice: [64, 128]}\n")
	queries := file("queries"+hostileName, "?\t"+hostileLabel+"\t"+w.tail+"\n")
	benchmark := strings.ReplaceAll(hostileLabel, "\u2028", "") // this character would end the name
	results := file("results", strings.Repeat("commit: "+hostileLabel+"\nBenchmark"+benchmark+"-2 1 100 ns/op\n", 8))
	more := file("more",
		strings.Repeat("Benchmark"+benchmark+"-2 1 110 ns/op\nBenchmarkMore"+benchmark+"-2 1 100 ns/op\n", 8))

	require.NoError(t, os.MkdirAll(filepath.Join(measured, "class"+hostileName), 0o755))
	require.NoError(t, os.Rename(file("result", "cpu: "+hostileLabel+"\nBenchmarkPanel-2 1 100 ns/op\n"),
		filepath.Join(measured, "class"+hostileName, hostileName+".txt")))

	t.Setenv("MQUINE_DATA", w.dir)
	for _, test := range []struct {
		status int
		want   string // in the output
		args   []string
	}{
		{exitOK, `\x1b]52;c;cm0gLXJmIH4=\x07\x08\x7f\u009b31m\u202e\u2066\u200b\u2028<script>`,
			[]string{"data", "list"}},
		{exitOK, `\nINJECTED\r\t\x1b[2J`, []string{"data", "info", w.data}},
		{exitFailed, "no data set", []string{"data", "info", "none" + hostileName}},
		{exitFailed, "no public data set", []string{"data", "get", hostileName}},
		{exitFailed, "", []string{"data", "get", "umls", "--from", w.path("none" + hostileName)}},
		{exitFailed, "", []string{"data", "import", w.data, "--name", hostileName}},
		{exitOK, `imported clan`, []string{"data", "import", w.data, "--name", "clan"}},
		{exitOK, `wrote`, []string{"data", "make", "families", "--entities", "60", "--out",
			w.path("families" + hostileName)}},
		{exitFailed, "already exists", []string{"data", "make", "families", "--entities", "60", "--out", w.data}},
		{exitOK, `wrote`, []string{"data", "split", filepath.Join(w.data, "train.txt"), "--out",
			w.path("split" + hostileName)}},
		{exitFailed, "no such file", []string{"data", "split", w.path("none" + hostileName), "--out", w.path("none")}},
		{exitOK, `kept the graph`, []string{"demo", "--keep", w.path("demo" + hostileName)}},
		{exitOK, `wrote`, []string{"init", "--model", "mquade", "--dim", "4", "--data", w.data, "--out",
			w.path("init" + hostileName), "--kind", "clustered"}},
		{exitOK, `Best trial: `, []string{"tune", "--data", w.data, "--space", space, "--trials", "2", "--rungs", "1",
			"--out", search}},
		{exitOK, `Best trial: `, []string{"tune", "--resume", search, "--budget", "1h"}},
		{exitOK, "dim: 4", []string{"train", "--config", filepath.Join(search, "best.yaml"), "--print-config"}},
		{exitFailed, "unknown option", []string{"tune", "--data", w.data, "--space",
			file("bad"+hostileName, "x\u202e: 1\n"), "--trials", "2"}},
		{exitFailed, "control characters", []string{"train", "--data", w.data, "--config",
			file("worse"+hostileName, hostileLabel+": 1\n")}},
		{exitUsage, "preset", []string{"train", "--data", w.data, "--preset", hostileName}},
		{exitOK, `trained on \x1b]52`, []string{"import", "--from", "rotate", rotate,
			w.path("imported" + hostileName), "--vocab", vocabulary}},
		{exitFailed, `has no entities.dict`, []string{"import", "--from", "rotate", rotate, w.path("again")}},
		{exitOK, `By relation`, append([]string{"eval", "--by", "relation,category,z-case", "--json",
			files("eval.json")}, subject...)},
		{exitOK, `profile: `, append([]string{"eval", "--profile", "mem", "--profile-dir",
			w.path("profile" + hostileName)}, subject...)},
		{exitFailed, `lacks 1 entity of the data (new\x1b]52`, []string{"eval", w.model, "--data", lacking}},
		{exitFailed, `\u202e`, []string{"eval", w.odd, "--data", w.data}},
		{exitFailed, "there is no checkpoint", []string{"eval", w.path("none" + hostileName), "--data",
			w.data}},
		{exitFailed, "cannot write", append([]string{"eval", "--json", w.path("none"+hostileName, "file")},
			subject...)},
		{exitOK, "difference [95% CI]", []string{"compare", w.model, w.other, "--data", w.data, "--by",
			"relation", "--json", files("compare.json")}},
		{exitOK, "| base | other | difference [95% CI] |", []string{"compare", w.model, w.other, "--data", w.data,
			"--by", "relation", "--format", "md"}},
		{exitOK, `\begin{tabular}`, []string{"compare", w.model, w.other, "--data", w.data, "--by", "relation",
			"--format", "latex"}},
		{exitFailed, "there is no checkpoint", []string{"compare", w.model, w.path("none" + hostileName), "--data",
			w.data}},
		{exitOK, "rank  answer", append([]string{"predict", "--head", w.head, "--relation", w.relation}, subject...)},
		{exitFailed, "the checkpoint has no entity", append([]string{"predict", "--head", w.head + "x", "--relation",
			w.relation}, subject...)},
		{exitFailed, "the checkpoint has no relation", append([]string{"predict", "--in", queries}, subject...)},
		{exitOK, "largest n_Z", []string{"z", "stats", "--data", w.data, "--relations", "--json", files("z.json"),
			"--plot", files("z.svg")}},
		{exitOK, "n_Z  rank_Z", []string{"z", "show", "--data", w.data, "--head", w.head, "--relation", w.relation,
			"--tail", w.tail, "--json", files("show.json")}},
		{exitFailed, "has no entity", []string{"z", "show", "--data", w.data, "--head", w.head + "x", "--relation",
			w.relation, "--tail", w.tail}},
		{exitOK, "mquine eval accepts the checkpoint", []string{"info", w.model, "--json", files("info.json")}},
		{exitFailed, "entity    F32    60×6", []string{"info", rotate}},
		{exitFailed, "mquine eval refuses the checkpoint", []string{"info", w.odd}},
		{exitFailed, `\nINJECTED\r\t\x1b[2J`, []string{"info", tensors}},
		{exitFailed, "refuses", []string{"info", tensors, "--json", "-"}},
		{exitOK, "has results in only one of the two sets", []string{"bench", "compare", results, more}},
		{exitOK, "\\x1b]52", []string{"bench", "report", "--results", measured, "--out", "-"}},
		{exitFailed, "contains no results", []string{"bench", "report", "--results", w.path("none" + hostileName)}},
		{exitFailed, "cannot read results", []string{"bench", "compare", results, w.path("none" + hostileName)}},
		{exitFailed, "is not a revision", []string{"bench", "pair", "--base", hostileName}},
		{exitUsage, "unknown command", []string{hostileName}},
		{exitUsage, "unknown flag", []string{"eval", "--" + hostileName}},
		{exitUsage, "choose from", []string{"eval", "--split", hostileName}},
		{exitUsage, "unexpected argument", []string{"demo", hostileName}},
		{exitUsage, "not a regular expression", []string{"bench", "run", "--bench", "(" + hostileName}},
	} {
		t.Run(test.args[0], func(t *testing.T) {
			o := mquine(t, test.args...)
			requireHarmless(t, o.stdout)
			requireHarmless(t, o.stderr)
			require.Equal(t, test.status, o.status, o.stderr)
			require.Contains(t, o.stdout+o.stderr, test.want)
		})
	}
	for _, name := range []string{"eval.json", "compare.json", "z.json", "show.json", "info.json"} {
		data := must1(os.ReadFile(files(name)))
		requireHarmless(t, string(data))
		assert.True(t, json.Valid(data), name)
	}
	shown := struct{ Head, Data string }{}
	require.NoError(t, json.Unmarshal(must1(os.ReadFile(files("show.json"))), &shown))
	assert.Equal(t, w.head, shown.Head, "JSON has the label itself")

	for _, path := range []string{files("z.svg"), filepath.Join(search, "trials.svg")} {
		svg := must1(os.ReadFile(path))
		requireHarmless(t, string(svg))
		requireWellFormed(t, svg)
	}
}

// requireWellFormed checks that a file is XML.
func requireWellFormed(t *testing.T, file []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(file)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else {
			require.NoError(t, err)
		}
	}
}

// TestHostileTraining trains on hostile data and resumes the run, even from a state that gives a
// hostile reason for the end of the run. The output and the plots must be harmless.
func TestHostileTraining(t *testing.T) {
	w := newHostileWorkplace(t)
	run := w.path("run" + hostileName)
	harmless := func(args ...string) outcome {
		t.Helper()
		o := mquine(t, args...)
		requireHarmless(t, o.stdout)
		requireHarmless(t, o.stderr)
		return o
	}
	o := harmless("train", "--data", w.data, "--out", run, "--dim", "4", "--epochs", "1")
	require.Zero(t, o.status, o.stderr)
	assert.Contains(t, o.stdout, `\nINJECTED\r\t\x1b[2J: the only epoch is done`)
	for _, name := range []string{"loss.svg", "validation.svg"} {
		svg := must1(os.ReadFile(filepath.Join(run, name)))
		requireHarmless(t, string(svg))
		requireWellFormed(t, svg)
	}
	o = harmless("train", "--resume", run, "--epochs", "2")
	require.Zero(t, o.status, o.stderr)
	o = harmless("train", "--data", w.data, "--out", run)
	o.requireSentence(t, exitFailed, "already exists")

	state := filepath.Join(run, "state.safetensors")
	rewriteSafetensors(t, state, state, func(metadata map[string]string) {
		metadata["format"] = "mquine-state/2" // this format has no checksum
		delete(metadata, "sha256")
		metadata["finished"] = "stopped early" + hostileName
	})
	o = harmless("train", "--resume", run)
	assert.Contains(t, o.stdout+o.stderr, `stopped early\x1b]52;c;cm0gLXJmIH4=\x07`)
	harmless("train", "--resume", run, "--epochs", "3")
}

// TestRealLabels checks that Escape changes no label of the real data sets.
func TestRealLabels(t *testing.T) {
	parent := os.Getenv("MQUINE_DATA")
	if parent == "" {
		t.Skip("MQUINE_DATA does not name the folder of the real data sets")
	}
	names, err := kg.Installed()
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		g, err := kg.Open(t.Context(), filepath.Join(parent, name))
		require.NoError(t, err)
		for _, v := range []*kg.Vocabulary{g.Entities, g.Relations} {
			for _, label := range v.Labels() {
				require.Equal(t, label, text.Escape(label), name)
			}
		}
	}
}

// TestExactForPrograms checks that machine-readable output to a pipe contains the exact labels.
func TestExactForPrograms(t *testing.T) {
	w := newHostileWorkplace(t)
	queries := w.path("queries.tsv")
	require.NoError(t, os.WriteFile(queries, []byte(w.head+"\t"+w.relation+"\t?\n"), 0o644))
	o := succeed(t, "predict", "--model", w.model, "--data", w.data, "--in", queries)
	lines := strings.Split(strings.TrimSuffix(o.stdout, "\n"), "\n")
	require.Greater(t, len(lines), 1)
	for _, line := range lines[1:] {
		fields := strings.Split(line, "\t")
		assert.Equal(t, []string{w.head, w.relation}, fields[:2])
		assert.True(t, strings.HasPrefix(fields[2], hostileLabel))
	}
	o = succeed(t, "z", "stats", "--data", w.data, "--tsv", "-")
	assert.Contains(t, o.stdout, "\t"+hostileLabel)
	requireHarmless(t, o.stderr)
	o = succeed(t, "compare", w.model, w.other, "--data", w.data, "--by", "relation", "--format", "csv")
	records, err := csv.NewReader(strings.NewReader(o.stdout)).ReadAll()
	require.NoError(t, err)
	assert.Contains(t, o.stdout, hostileLabel)
	assert.Equal(t, filepath.Base(w.other), records[1][5])
}
