package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
)

// weightedSum returns the weighted sum of the checkpoints' reference scores. Queries and
// entities have the identifiers of the data set.
func weightedSum(t *testing.T, g *kg.Graph, paths []string, weights []float64) func(kg.Query, int32) float64 {
	backend := kerneltest.Best(t)
	type scorer func(q kg.Query, e int32) float64
	var scorers []scorer
	for _, path := range paths {
		c, err := checkpoint.Open(t.Context(), path)
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		w := c.Model.NewWorker(backend)
		entity := func(e int32) int32 {
			id, ok := c.Entities.ID(g.Entities.Label(e))
			require.True(t, ok)
			return id
		}
		scorers = append(scorers, func(q kg.Query, e int32) float64 {
			r, ok := c.Relations.ID(g.Relations.Label(q.Relation))
			require.True(t, ok)
			return w.Reference(kg.Query{Side: q.Side, Relation: r, Anchor: entity(q.Anchor)}, entity(e))
		})
	}
	return func(q kg.Query, e int32) (s float64) {
		for i, score := range scorers {
			s += float64(weights[i] * score(q, e))
		}
		return s
	}
}

// sumRanks ranks the test triples among the given entities by the weighted sum of the checkpoints'
// reference scores, one candidate at a time. For each query whose answer is a candidate, written as
// side and labels, it returns the numbers of better and of equal candidates under filter none.
func sumRanks(
	t *testing.T, data string, paths []string, weights []float64, candidates func(label string) bool,
) map[string][2]int {
	g, err := kg.Open(t.Context(), data)
	require.NoError(t, err)
	sum := weightedSum(t, g, paths, weights)
	ranks := map[string][2]int{}
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		for _, tr := range g.Splits[kg.Test] {
			q, target := tr.Query(side)
			if !candidates(g.Entities.Label(target)) {
				continue
			}
			var counts [2]int
			want := sum(q, target)
			for e := range int32(g.Entities.Len()) {
				if !candidates(g.Entities.Label(e)) {
					continue
				}
				switch s := sum(q, e); {
				case s > want:
					counts[0]++
				case s == want && e != target:
					counts[1]++
				}
			}
			head, relation, tail := g.Entities.Label(tr.Head), g.Relations.Label(tr.Relation), g.Entities.Label(tr.Tail)
			ranks[strings.Join([]string{side.String(), head, relation, tail}, "\t")] = counts
		}
	}
	return ranks
}

// rotated saves a checkpoint with the labels of its entities in a different order, so their
// identifiers differ from the data set's.
func rotated(t *testing.T, from, to string) {
	c, err := checkpoint.Open(t.Context(), from)
	require.NoError(t, err)
	defer c.Close()
	labels := c.Entities.Labels()
	entities := kg.NewVocabulary(slices.Concat(labels[20:], labels[:20])...)
	err = checkpoint.Save(t.Context(), to, c.Model, entities, c.Relations, map[string]string{"dataset": c.Dataset})
	require.NoError(t, err)
}

// An ensemble ranks by the weighted sum of the scores, even if its checkpoints list the labels in
// different orders, also among some of the entities.
func TestEvalEnsemble(t *testing.T) {
	w := newWorkplace(t)
	same, other := w.path("same"), w.path("other")
	succeed(t, "init", "--model", "complex", "--dim", "5", "--data", w.data, "--out", same, "--kind", "random")
	rotated(t, same, other)
	ranks, report := w.path("ranks.tsv"), w.path("eval.json")
	eval := []string{"eval", w.model, other, "--ensemble", "1,0.3", "--data", w.data, "--filter", "none",
		"--ranks", ranks}
	check := func(candidates func(label string) bool) {
		got := map[string][2]int{}
		for _, line := range sortedLines(t, ranks) {
			if f := strings.Split(line, "\t"); f[0] != "side" {
				got[strings.Join(f[:4], "\t")] = [2]int{must1(strconv.Atoi(f[4])), must1(strconv.Atoi(f[5]))}
			}
		}
		assert.Equal(t, sumRanks(t, w.data, []string{w.model, other}, []float64{1, 0.3}, candidates), got)
	}
	o := succeed(t, append(eval, "--json", report)...)
	assert.Contains(t, o.stdout, "1 mquine (d = 6) + 0.3 complex (d = 5)")
	check(func(string) bool { return true })

	var r struct {
		Provenance struct {
			Checkpoint struct {
				Model, SHA256 string
				Members       []struct {
					Weight        float64
					Model, SHA256 string
					Path          string
				}
			}
		}
	}
	text, err := os.ReadFile(report)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	c := r.Provenance.Checkpoint
	assert.Equal(t, "ensemble", c.Model)
	require.Len(t, c.Members, 2)
	for i, path := range []string{w.model, other} {
		m := c.Members[i]
		assert.Equal(t, []float64{1, 0.3}[i], m.Weight)
		assert.Equal(t, []string{"mquine", "complex"}[i], m.Model)
		assert.Equal(t, path, m.Path)
		parameters, err := os.ReadFile(filepath.Join(path, "model.safetensors"))
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("%x", sha256.Sum256(parameters)), m.SHA256)
	}

	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	some := g.Entities.Labels()[:g.Entities.Len()/2]
	list := w.path("candidates.txt")
	require.NoError(t, os.WriteFile(list, []byte(strings.Join(some, "\n")), 0o666))
	succeed(t, append(eval, "--candidates", list, "--skip-excluded", "--force")...)
	check(func(label string) bool { return slices.Contains(some, label) })

	o = succeed(t, "eval", w.model, other, "--ensemble", "fit", "--data", w.data, "--split", "valid")
	assert.Regexp(t, `fitted the weights 1,[0-9.]+: mrr/both/all of the valid split is 0\.\d{4}`, o.stderr)
	assert.Contains(t, o.stderr, "the weights were fitted to this split")
}

// A note names a member that gets weight 0: here one of two models whose scores are negatives of each
// other.
func TestEnsembleWithoutMember(t *testing.T) {
	w := newWorkplace(t)
	paths := []string{w.path("a"), w.path("b")}
	succeed(t, "init", "--model", "distmult", "--dim", "5", "--data", w.data, "--out", paths[0], "--kind", "random")
	c, err := checkpoint.Open(t.Context(), paths[0])
	require.NoError(t, err)
	defer c.Close()
	tensors := c.Model.Tensors()
	relations := slices.Clone(tensors[1])
	for i := range relations {
		relations[i] *= -1
	}
	negative, err := model.New(c.Model.Config(), [][]float32{tensors[0], relations})
	require.NoError(t, err)
	err = checkpoint.Save(t.Context(), paths[1], negative, c.Entities, c.Relations, map[string]string{"dataset": "x"})
	require.NoError(t, err)

	var fitted []string
	for _, order := range [][]string{paths, {paths[1], paths[0]}} {
		o := succeed(t, "eval", order[0], order[1], "--ensemble", "fit", "--data", w.data)
		weights := regexp.MustCompile(`fitted the weights ([0-9.,]+): `).FindStringSubmatch(o.stderr)[1]
		fitted = append(fitted, weights)
		for i, weight := range strings.Split(weights, ",") {
			note := "note: " + order[i] + " has weight 0, because the valid split ranks no better with it\n"
			assert.Equal(t, weight == "0", strings.Contains(o.stderr, note), o.stderr)
		}
	}
	assert.ElementsMatch(t, []string{"1,0", "0,1"}, fitted)
}

// Every command that accepts an ensemble prints the weighted sums of the scores.
func TestEnsembleScores(t *testing.T) {
	w := newWorkplace(t)
	same, other := w.path("same"), w.path("other")
	succeed(t, "init", "--model", "complex", "--dim", "5", "--data", w.data, "--out", same, "--kind", "random")
	rotated(t, same, other)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	sum := weightedSum(t, g, []string{w.model, other}, []float64{1, 0.3})
	with := func(command string, args ...string) []string {
		return append([]string{command, w.model, other, "--ensemble", "1,0.3", "--data", w.data}, args...)
	}
	check := func(rows []map[string]string) {
		t.Helper()
		require.NotEmpty(t, rows)
		for _, row := range rows {
			h, _ := g.Entities.ID(row["head"])
			r, _ := g.Relations.ID(row["relation"])
			e, _ := g.Entities.ID(row["tail"])
			q, target := kg.Triple{Head: h, Relation: r, Tail: e}.Query(kg.Tail)
			require.Equal(t, strconv.FormatFloat(sum(q, target), 'g', -1, 64), row["score"], "%v", row)
		}
	}
	test := string(must1(os.ReadFile(filepath.Join(w.data, "test.txt"))))
	o := mquineReading(t, test, with("score", "--in", "-")...)
	require.Zero(t, o.status, o.stderr)
	check(readTSV(t, o.stdout))

	f := strings.Split(strings.SplitN(test, "\n", 2)[0], "\t")
	o = succeed(t, with("predict", "--head", f[0], "--relation", f[1], "-k", "60", "--format", "tsv")...)
	rows := readTSV(t, o.stdout)
	check(rows)
	assert.Len(t, rows, g.Entities.Len())
	assert.True(t, slices.IsSortedFunc(rows, func(a, b map[string]string) int {
		return cmp.Compare(number64(t, b["score"]), number64(t, a["score"]))
	}))
	check(readTSV(t, succeed(t, with("predict", "--head", f[0], "--tail", f[2], "--format", "tsv")...).stdout))
	for command, args := range map[string][]string{
		"predict": {"--head", f[0], "--relation", f[1]}, "score": {"--head", f[0], "--relation", f[1], "--tail", f[2]},
		"discover": nil, "classify": nil,
	} {
		o := succeed(t, with(command, append(args, "--format", "json")...)...)
		var r struct {
			Provenance struct{ Checkpoint metrics.Checkpoint }
		}
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &r))
		assert.Equal(t, "1 mquine (d = 6) + 0.3 complex (d = 5)", r.Provenance.Checkpoint.ModelText(), command)
		assert.Regexp(t, "^1 [0-9a-f]{64} \\+ 0.3 [0-9a-f]{64}$", r.Provenance.Checkpoint.Parameters(), command)
	}
	check(readTSV(t, succeed(t, with("discover", "-k", "3", "--format", "tsv")...).stdout))

	predictions, calibration := w.path("predictions.tsv"), w.path("calibration.json")
	succeed(t, with("classify", "--predictions", predictions, "--calibration", calibration)...)
	check(readTSV(t, string(must1(os.ReadFile(predictions)))))

	// A calibration belongs to the checkpoints and their weights.
	probability := func(weights string) []string {
		return []string{
			"score", w.model, other, "--ensemble", weights, "--calibration", calibration, "--head", f[0], "--relation",
			f[1], "--tail", f[2],
		}
	}
	o = succeed(t, probability("1,0.3")...)
	assert.Regexp(t, ` 0\.\d{4}\n`, o.stdout)
	assert.Contains(t, o.stdout, "weighted sum of the scores of its models")
	mquine(t, probability("1,0.5")...).requireSentence(t, exitFailed, "is for other scores, of 1 "+w.model+" + 0.3 "+
		other+": write one for 1 "+w.model+" + 0.5 "+other)

	// The weights that fit finds are the same for all commands.
	fit := func(command string, args ...string) string {
		args = append([]string{command, w.model, other, "--ensemble", "fit", "--data", w.data}, args...)
		fitted := regexp.MustCompile(`fitted the weights .*`).FindString(succeed(t, args...).stderr)
		require.NotEmpty(t, fitted)
		return fitted
	}
	weights := fit("eval")
	assert.Equal(t, weights, fit("predict", "--head", f[0], "--relation", f[1]))
	assert.Equal(t, weights, fit("score", "--head", f[0], "--relation", f[1], "--tail", f[2]))
	assert.Equal(t, weights, fit("discover"))
	assert.Equal(t, weights, fit("classify"))

	// Wrong files are errors before the fit.
	damaged := w.path("damaged.json")
	require.NoError(t, os.WriteFile(damaged, []byte("{}"), 0o644))
	for file, sentence := range map[string]string{
		w.path("none"): "cannot read the calibration " + w.path("none") + ": no such file",
		damaged:        damaged + " is not a calibration",
	} {
		for _, args := range [][]string{
			{"discover"}, {"score", "--head", f[0], "--relation", f[1], "--tail", f[2]},
		} {
			args = append(args, w.model, other, "--ensemble", "fit", "--data", w.data, "--calibration", file)
			o := mquine(t, args...)
			o.requireSentence(t, exitFailed, sentence)
			assert.NotContains(t, o.stderr, "fitted")
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(w.data, "labels.tsv"), []byte("a\n"), 0o644))
	o = mquine(t, "discover", w.model, other, "--ensemble", "fit", "--data", w.data)
	o.requireSentence(t, exitFailed, "labels.tsv:1: ")
	assert.NotContains(t, o.stderr, "fitted")
}

func TestEnsembleWeights(t *testing.T) {
	var e ensemble
	require.NoError(t, e.Set("-0,1"))
	assert.Equal(t, "0,1", e.String())
}

func TestEnsembleErrors(t *testing.T) {
	w := newWorkplace(t)
	distance, smaller := w.path("distance"), w.path("smaller")
	succeed(t, "init", "--model", "transe-l1", "--dim", "4", "--data", w.data, "--out", distance)
	succeed(t, "data", "make", "families", "--out", w.path("few"), "--entities", "40", "--train", "200", "--valid",
		"10", "--test", "10")
	succeed(t, "init", "--model", "complex", "--dim", "4", "--data", w.path("few"), "--out", smaller)
	for _, c := range []struct {
		want string
		args []string
	}{
		{`unexpected argument "` + distance + `": to use the sum of the scores`, []string{w.model, distance}},
		{"give the checkpoints of the ensemble as arguments", []string{w.model, "--ensemble", "equal"}},
		{"--ensemble has 3 weights, but there are 2 checkpoints", []string{w.model, distance, "--ensemble", "1,2,3"}},
		{"must be equal, fit or numbers", []string{w.model, distance, "--ensemble", "1,-2"}},
		{"at least one weight must be positive", []string{w.model, distance, "--ensemble", "0,0"}},
	} {
		mquine(t, append([]string{"eval", "--data", w.data}, c.args...)...).requireSentence(t, exitUsage, c.want)
	}
	mquine(t, "eval", w.model, distance, "--ensemble", "equal", "--data", w.data).requireSentence(t, exitFailed,
		"model 2 of the ensemble, transe-l1, uses comparison l1: an ensemble needs models with dot products")
	mquine(t, "eval", w.model, smaller, "--ensemble", "equal", "--data", w.data).requireSentence(t, exitFailed,
		"checkpoint "+smaller+" lacks entity")
	mquine(t, "eval", w.model, w.model, "--ensemble", "equal", "--data", w.data, "--backend", "cuda").
		requireSentence(t, exitFailed, "--ensemble ranks on the processor")
	mquine(t, "predict", w.model, w.model, "--ensemble", "equal", "--data", w.data, "--devices", "0", "--in", "-").
		requireSentence(t, exitFailed, "--ensemble ranks on the processor")
	mquine(t, "discover", w.model, w.model, "--ensemble", "equal", "--data", w.data, "--backend", "cuda").
		requireSentence(t, exitFailed, "--ensemble ranks on the processor")
	mquine(t, "score", w.model, w.model, "--ensemble", "fit", "--in", "-").
		requireSentence(t, exitUsage, "--ensemble fit needs --data")
}
