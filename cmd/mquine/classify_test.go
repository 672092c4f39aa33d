package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
)

// TestClassify recomputes the measures from the predictions, and the probabilities with mquine score.
func TestClassify(t *testing.T) {
	w := newWorkplace(t)
	calibration, predictions, plot := w.path("c.json"), w.path("p.tsv"), w.path("p.svg")
	other := w.another(t)
	for _, method := range []string{"platt", "isotonic"} {
		o := succeed(t, "classify", w.model, "--data", w.data, "--calibrate", method, "--calibration", calibration,
			"--predictions", predictions, "--plot", plot, "--json", w.path("r.json"), "--relations")
		title, _, _ := strings.Cut(o.stdout, "\n\n")
		assert.Contains(t, title, "(generated)")
		assert.Contains(t, strings.ReplaceAll(title, "\n", " "), ", side tail, "+method+" calibration")
		assert.Contains(t, o.stdout, "By relation")
		var r classified
		require.NoError(t, json.Unmarshal(must1(os.ReadFile(w.path("r.json"))), &r))
		assert.Equal(t, "mquine.classify/1", r.Schema)
		require.NotNil(t, r.Seed)
		rows := readTSV(t, string(must1(os.ReadFile(predictions))))
		require.Len(t, rows, r.Result.N)
		right, brier := 0.0, 0.0
		var triples strings.Builder
		for _, row := range rows {
			class := 0.0
			if row["class"] == "true" {
				class = 1
			}
			if row["class"] == row["predicted"] {
				right++
			}
			p := number64(t, row["probability"])
			brier += (p - class) * (p - class)
			triples.WriteString(row["head"] + "\t" + row["relation"] + "\t" + row["tail"] + "\n")
		}
		n := float64(len(rows))
		assert.InDelta(t, right/n, float64(r.Result.Accuracy), 1e-12)
		assert.InDelta(t, brier/n, float64(r.Reliability.Brier), 1e-12)
		drawn := string(must1(os.ReadFile(plot)))
		assert.Equal(t, 3, strings.Count(drawn, `class="title"`))
		_, titles, _ := strings.Cut(drawn, "<title>")
		titles, _, _ = strings.Cut(titles, "</title>")
		assert.Equal(t, 3, strings.Count(titles, ", side tail: "), titles)
		o = succeed(t, "classify", w.model, "--data", w.data, "--calibrate", method, "--predictions", "-", "--json",
			w.path("beside.json"), "--format", "latex", "--relations", "--top", "1")
		assert.Equal(t, string(must1(os.ReadFile(predictions))), o.stdout)
		assert.Contains(t, o.stderr, "\n% … and ", "the remark is a comment in LaTeX")
		var beside classified
		require.NoError(t, json.Unmarshal(must1(os.ReadFile(w.path("beside.json"))), &beside))
		assert.Equal(t, r.Result, beside.Result)
		require.NoError(t, os.Remove(w.path("beside.json")))

		s := mquineReading(t, triples.String(), "score", w.model, "--data", w.data, "--in", "-",
			"--calibration", calibration)
		require.Zero(t, s.status, s.stderr)
		for i, row := range readTSV(t, s.stdout) {
			require.Equal(t, rows[i]["score"], row["score"])
			require.Equal(t, rows[i]["probability"], row["probability"])
			require.Equal(t, rows[i]["class"] == "true", row["known"] != "unknown")
		}
		line, _, _ := strings.Cut(triples.String(), "\n")
		s = mquineReading(t, line, "score", w.model, "--in", "-", "--calibration", calibration, "--format", "table")
		assert.Contains(t, s.stdout, "\nProbabilities: "+method+" calibration.\n")
		mquineReading(t, "", "score", other, "--in", "-", "--calibration", calibration).
			requireSentence(t, exitFailed, "is for other scores, of ")
		mquineReading(t, "", "score", w.model, "--in", "-", "--calibration", calibration, "--side", "head").
			requireSentence(t, exitFailed, "is for --side tail")
	}
	require.NoError(t, os.WriteFile(calibration, []byte("{}"), 0o644))
	mquineReading(t, "", "score", w.model, "--in", "-", "--calibration", calibration).
		requireSentence(t, exitFailed, "is not a calibration")
}

// A calibration is refused if the labels of the checkpoint have changed. A file of an earlier version has no
// checksum of them and is accepted.
func TestCalibrationOfOtherLabels(t *testing.T) {
	w := newWorkplace(t)
	exported, calibration := w.path("exported"), w.path("c.json")
	succeed(t, "export", w.model, "--to", "npy", exported)
	succeed(t, "classify", exported, "--data", w.data, "--calibration", calibration)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	triple := g.Entities.Label(0) + "\t" + g.Relations.Label(0) + "\t" + g.Entities.Label(1) + "\n"
	score := func() outcome {
		return mquineReading(t, triple, "score", exported, "--in", "-", "--calibration", calibration)
	}
	require.Zero(t, score().status)

	entities := filepath.Join(exported, "entities.tsv")
	a, b := "\t"+g.Entities.Label(0)+"\n", "\t"+g.Entities.Label(1)+"\n"
	contents := string(must1(os.ReadFile(entities)))
	require.NoError(t, os.WriteFile(entities, []byte(strings.NewReplacer(a, b, b, a).Replace(contents)), 0o644))
	score().requireSentence(t, exitFailed, "the calibration "+calibration+" is for "+exported+
		" with other labels of entities or relations: write another with mquine classify --calibration")

	var file map[string]any
	require.NoError(t, json.Unmarshal(must1(os.ReadFile(calibration)), &file))
	delete(file, "vocabulary_sha256")
	require.NoError(t, os.WriteFile(calibration, must1(json.Marshal(file)), 0o644))
	require.Zero(t, score().status)
}

// Only commands that rank candidates say that further entities of the checkpoint are candidates.
func TestNoteAboutCandidates(t *testing.T) {
	w := newWorkplace(t)
	train := filepath.Join(w.data, "train.txt")
	contents := string(must1(os.ReadFile(train)))
	line, _, _ := strings.Cut(contents, "\n")
	f := strings.Split(line, "\t")
	more := contents + "stranger\t" + f[1] + "\t" + f[2] + "\n"
	require.NoError(t, os.WriteFile(train, []byte(more+line+"\n"), 0o644))
	require.NoError(t, os.Remove(filepath.Join(w.data, "entities.tsv")))
	model := w.path("more")
	succeed(t, "init", "--model", "complex", "--dim", "4", "--data", w.data, "--out", model)
	require.NoError(t, os.WriteFile(train, []byte(contents+line+"\n"), 0o644))
	score := []string{"score", model, "--head", f[0], "--relation", f[1], "--tail", f[2]}
	fit := []string{model, "--ensemble", "fit"}
	for _, c := range []struct {
		args []string
		want bool
	}{
		{[]string{"classify", model}, false},
		{append([]string{"classify", model}, fit...), true},
		{score, false},
		{append(slices.Clone(score), "--ranks"), true},
		{append(slices.Clone(score), fit...), true},
		{[]string{"discover", model}, true},
	} {
		o := succeed(t, append(c.args, "--data", w.data)...)
		const note = "note: 1 entity that is only in the checkpoint stays a candidate\n"
		assert.Equal(t, c.want, strings.Contains(o.stderr, note), "%v", c.args)
		assert.Contains(t, o.stderr, "note: train: 1 triple repeats an earlier one", "%v", c.args)
	}
}

// In CSV, the accuracy beside a threshold is the accuracy that the threshold gives.
func TestClassifyCSV(t *testing.T) {
	w := newWorkplace(t)
	for _, thresholds := range []string{"relation", "overall"} {
		o := succeed(t, "classify", w.model, "--data", w.data, "--threshold", thresholds, "--format", "csv",
			"--predictions", w.path("p.tsv"), "--side", "head", "--calibrate", "isotonic")
		triples := readTSV(t, string(must1(os.ReadFile(w.path("p.tsv")))))
		rows := readTSV(t, strings.ReplaceAll(o.stdout, ",", "\t"))
		require.Greater(t, len(rows), 2)
		for i, row := range rows {
			assert.Equal(t, "head isotonic", row["side"]+" "+row["calibration"])
			assert.Equal(t, []string{w.model, "generated", "1", thresholds},
				[]string{row["checkpoint"], row["negatives"], row["seed"], row["thresholds"]})
			if row["threshold"] == "" {
				assert.Zero(t, i, "every relation has a threshold")
				assert.Equal(t, "relation", thresholds)
				continue
			}
			right, n := 0.0, 0.0
			for _, tr := range triples {
				if i == 0 || tr["relation"] == row["relation"] {
					n++
					if (tr["class"] == "true") == (number64(t, tr["score"]) >= number64(t, row["threshold"])) {
						right++
					}
				}
			}
			assert.InDelta(t, right/n, number64(t, row["accuracy"]), 1e-12, "%s: %v", thresholds, row)
		}
	}
}

// A note says if the scores do not tell true triples from false ones, here because both are the same.
func TestClassifyConstantProbability(t *testing.T) {
	w := newWorkplace(t)
	valid := must1(os.ReadFile(filepath.Join(w.data, "valid.txt")))
	for _, split := range []string{"valid", "test"} {
		require.NoError(t, os.WriteFile(filepath.Join(w.data, split+"_negatives.txt"), valid, 0o644))
	}
	const note = "note: every probability is the same, because triples of valid with higher scores are not more " +
		"often true\n"
	for _, method := range []string{"platt", "isotonic"} {
		o := succeed(t, "classify", w.model, "--data", w.data, "--calibrate", method, "--calibration", "-")
		assert.Contains(t, o.stderr, note)
		assert.Equal(t, method == "platt", strings.Contains(o.stdout, "\"slope\": 0,"), o.stdout)
		assert.NotContains(t, succeed(t, "classify", w.model, "--data", w.data, "--calibrate", method,
			"--negatives", "generated").stderr, note)
	}
}

// By default, classify uses the files with false triples if both exist.
func TestClassifyWithFiles(t *testing.T) {
	w := newWorkplace(t)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	line := func(tr kg.Triple) string {
		entities := g.Entities
		return entities.Label(tr.Head) + "\t" + g.Relations.Label(tr.Relation) + "\t" + entities.Label(tr.Tail) + "\n"
	}
	classify := []string{"classify", w.model, "--data", w.data}
	mquine(t, append(classify, "--negatives", "files")...).requireSentence(t, exitFailed,
		"has no false triples for valid: put valid_negatives.txt into "+w.data)
	for _, split := range []kg.Split{kg.Valid, kg.Test} {
		var text strings.Builder
		for _, tr := range g.Splits[split] {
			text.WriteString(line(kg.Triple{Head: tr.Tail, Relation: tr.Relation, Tail: tr.Head}))
		}
		require.NoError(t, os.WriteFile(filepath.Join(w.data, split.String()+"_negatives.txt"),
			[]byte(text.String()), 0o644))
	}
	o := succeed(t, classify...)
	assert.Contains(t, o.stdout, "40 true and 40 false triples (files)")
	fitted := "note: the thresholds and the calibration were fitted to this split, so the metrics are too good\n"
	assert.NotContains(t, o.stderr, fitted)
	assert.Contains(t, succeed(t, append(classify, "--negatives", "generated")...).stdout, "(generated)")
	o = succeed(t, append(classify, "--threshold", "overall", "--split", "valid", "--side", "head")...)
	assert.Contains(t, o.stdout, "20 true and 20 false triples (files)")
	assert.Contains(t, o.stderr, fitted)
	assert.Contains(t, o.stdout, "The threshold of all relations, ")

	mquine(t, append(classify, "--seed", "7")...).requireSentence(t, exitFailed,
		"--seed applies to generated false triples, but the data set families has files: add --negatives generated")
	mquine(t, append(classify, "--threshold", "overall", "--unseen", "true")...).requireSentence(t, exitUsage,
		"--unseen applies to thresholds of relations")

	known := line(g.Splits[kg.Train][0])
	file := filepath.Join(w.data, "test_negatives.txt")
	require.NoError(t, os.WriteFile(file, []byte(known), 0o644))
	assert.Contains(t, succeed(t, classify...).stderr, "1 false triple for test is a true triple in the data set")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat(known, 3)), 0o644))
	assert.Contains(t, succeed(t, classify...).stderr, "2 false triples for test repeat earlier ones, and count again")
	require.NoError(t, os.WriteFile(file, []byte(known+"stranger\tlives_in\tnowhere\n"), 0o644))
	mquine(t, classify...).requireSentence(t, exitFailed, `test_negatives.txt:2: unknown entity "stranger"`)
}

// In a graph with a single pair of entities, no false triple can be generated.
func TestClassifyWithoutFalseTriples(t *testing.T) {
	w := workplaceIn(t.TempDir())
	require.NoError(t, os.Mkdir(w.data, 0o755))
	for split := range kg.NumSplits {
		path := filepath.Join(w.data, split.String()+".txt")
		require.NoError(t, os.WriteFile(path, []byte("anna\tlikes\tbert\n"), 0o644))
	}
	succeed(t, "init", "--model", "complex", "--dim", "4", "--data", w.data, "--out", w.model)
	mquine(t, "classify", w.model, "--data", w.data).requireSentence(t, exitFailed,
		"no false triple can be generated for the triples of valid, because all entities observed with their "+
			"relations are known answers: put valid_negatives.txt with false triples into "+w.data)
}
