package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/checkpoint"
)

// sumRanks ranks the test triples by the weighted sum of the checkpoints' reference scores, one
// candidate at a time. For each query, written as side and labels, it returns the numbers of better
// and of equal candidates under filter none.
func sumRanks(t *testing.T, data string, paths []string, weights []float64) map[string][2]int {
	g, err := kg.Open(t.Context(), data)
	require.NoError(t, err)
	backends, err := kernel.Available()
	require.NoError(t, err)
	type scorer func(q kg.Query, e int32) float64
	var scorers []scorer
	for _, path := range paths {
		c, err := checkpoint.Open(t.Context(), path)
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		w := c.Model.NewWorker(backends[0])
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
	sum := func(q kg.Query, e int32) (s float64) {
		for i, score := range scorers {
			s += float64(weights[i] * score(q, e))
		}
		return s
	}
	ranks := map[string][2]int{}
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		for _, tr := range g.Splits[kg.Test] {
			q, target := tr.Query(side)
			var counts [2]int
			want := sum(q, target)
			for e := range int32(g.Entities.Len()) {
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
// different orders.
func TestEvalEnsemble(t *testing.T) {
	w := newWorkplace(t)
	same, other := w.path("same"), w.path("other")
	succeed(t, "init", "--model", "complex", "--dim", "5", "--data", w.data, "--out", same, "--kind", "random")
	rotated(t, same, other)
	want := sumRanks(t, w.data, []string{w.model, other}, []float64{1, 0.3})

	ranks, report := w.path("ranks.tsv"), w.path("eval.json")
	o := succeed(t, "eval", w.model, other, "--ensemble", "1,0.3", "--data", w.data, "--filter", "none",
		"--ranks", ranks, "--json", report)
	assert.Contains(t, o.stdout, "1 mquine (d = 6) + 0.3 complex (d = 5)")
	got := map[string][2]int{}
	for _, line := range sortedLines(t, ranks) {
		if f := strings.Split(line, "\t"); f[0] != "side" {
			got[strings.Join(f[:4], "\t")] = [2]int{must1(strconv.Atoi(f[4])), must1(strconv.Atoi(f[5]))}
		}
	}
	assert.Equal(t, want, got)

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

	o = succeed(t, "eval", w.model, other, "--ensemble", "fit", "--data", w.data, "--split", "valid")
	assert.Regexp(t, `fitted the weights 1,[0-9.]+: mrr/both/all of the valid split is 0\.\d{4}`, o.stderr)
	assert.Contains(t, o.stderr, "the weights were fitted to the ranked split")
}

func TestEvalEnsembleErrors(t *testing.T) {
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
		{`unexpected argument "` + distance + `": to rank by the sum`, []string{w.model, distance}},
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
}
