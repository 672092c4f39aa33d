package zpattern

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
)

// figure returns the graph of the paper's figure, e1 → e2 ← e3 → e4, with the test triple (e1, r,
// e4) and a relation without triples.
func figure() *kg.Graph {
	g := &kg.Graph{
		Name: "figure", Entities: kg.NewVocabulary("e1", "e2", "e3", "e4"), Relations: kg.NewVocabulary("r", "unused"),
	}
	g.Splits[kg.Train] = []kg.Triple{{Head: 0, Tail: 1}, {Head: 2, Tail: 1}, {Head: 2, Tail: 3}}
	g.Splits[kg.Test] = []kg.Triple{{Head: 0, Tail: 3}}
	return g
}

func TestReportOfTheFigure(t *testing.T) {
	s, err := NewSplitValues(t.Context(), figure(), kg.Test, []kg.Side{kg.Tail, kg.Head}, Definition, 1, nil)
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, s.Write(&text))
	assert.Equal(
		t,
		"side\thead\trelation\ttail\tz\trank_z\tcase\ntail\te1\tr\te4\t1\t1\teasy\nhead\te1\tr\te4\t1\t1\teasy\n",
		text.String(),
	)

	got, err := json.Marshal(s.Report())
	require.NoError(t, err)
	one := `{"side":"tail","largest":1,"bins":[{"from":0,"to":0,"n":0},{"from":1,"to":1,"n":1}]}`
	cases := `{"side":"tail","convention":"definition","n":1,"easy":1,"neutral":0,"hard":0}`
	counts := `"side":"tail","convention":"definition","n":%d,"easy":%[1]d,"neutral":0,"hard":0,"largest_z":%[1]d}`
	relations := fmt.Sprintf(`{"relation":"r",`+counts+`,`, 1) + fmt.Sprintf(`{"relation":"unused",`+counts, 0)
	head := func(s string) string { return strings.ReplaceAll(s, "tail", "head") }
	assert.Equal(t, `{"schema":"mquine.z-stats/1","data":"figure","split":"test","triples":1,`+
		`"z":`+strings.Replace(one, `"side":"tail",`, "", 1)+`,"rank_z":[`+one+`,`+head(one)+`],`+
		`"cases":[`+cases+`,`+head(cases)+`],"relations":[`+relations+`,`+head(relations)+`]}`, string(got))
}

// TestReportCounts compares the counts in a report with counts of the lines that Write writes.
func TestReportCounts(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	g := graphOf(40, 3, randomTriples(rng, 600, 40, 3, true))
	g.Splits[kg.Valid] = randomTriples(rng, 90, 40, 3, false)
	sides := []kg.Side{kg.Head}
	s, err := NewSplitValues(t.Context(), g, kg.Valid, sides, Paper, 2, nil)
	require.NoError(t, err)
	r := s.Report()
	var text bytes.Buffer
	require.NoError(t, s.Write(&text))
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")[1:]
	require.Len(t, lines, 90)

	cases := map[string]int{}
	var numbers [2][]uint64
	for _, line := range lines {
		f := strings.Split(line, "\t")
		cases[f[6]]++
		cases[f[2]+" "+f[6]]++
		for i := range numbers {
			n, err := strconv.ParseUint(f[4+i], 10, 64)
			require.NoError(t, err)
			numbers[i] = append(numbers[i], n)
		}
	}
	for i, h := range []Histogram{r.Z, r.RankZ[0]} {
		next := uint64(0)
		for _, b := range h.Bins {
			assert.Equal(t, next, b.From)
			n := 0
			for _, number := range numbers[i] {
				if b.From <= number && number <= b.To {
					n++
				}
			}
			assert.Equal(t, n, b.N)
			next = b.To + 1
		}
		last := h.Bins[len(h.Bins)-1]
		assert.Contains(t, numbers[i], h.Largest)
		assert.True(t, last.From <= h.Largest && h.Largest <= last.To && last.N > 0)
	}
	assert.Equal(
		t,
		[]int{cases["easy"], cases["neutral"], cases["hard"]},
		[]int{r.Cases[0].Easy, r.Cases[0].Neutral, r.Cases[0].Hard},
	)
	require.Len(t, r.Relations, 3)
	for _, c := range r.Relations {
		of := c.Relation + " "
		assert.Equal(
			t,
			[]int{cases[of+"easy"], cases[of+"neutral"], cases[of+"hard"]},
			[]int{c.Easy, c.Neutral, c.Hard},
		)
	}
}

func TestSplitValuesNeedTheSplit(t *testing.T) {
	_, err := NewSplitValues(t.Context(), figure(), kg.Valid, []kg.Side{kg.Tail}, Paper, 1, nil)
	assert.ErrorContains(t, err, "has no valid split")
	_, err = NewTripleReport(t.Context(), &kg.Graph{Name: "empty", Entities: kg.NewVocabulary()}, kg.Triple{}, Paper, 1)
	assert.ErrorContains(t, err, "has no train split")
}

func TestWriteReportsErrors(t *testing.T) {
	s, err := NewSplitValues(t.Context(), figure(), kg.Test, []kg.Side{kg.Tail}, Paper, 1, nil)
	require.NoError(t, err)
	assert.EqualError(t, s.Write(brokenWriter{}), "pipe is closed")
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("pipe is closed") }

func TestTripleReport(t *testing.T) {
	g := figure()
	r, err := NewTripleReport(t.Context(), g, g.Splits[kg.Test][0], Paper, 5)
	require.NoError(t, err)
	got, err := json.Marshal(r)
	require.NoError(t, err)
	assert.Equal(
		t,
		`{"schema":"mquine.z-show/1","data":"figure","convention":"paper","head":"e1","relation":"r","tail":"e4",`+
			`"splits":["test"],"z":1,`+
			`"sides":[{"side":"tail","rank_z":1,"case":"easy"},{"side":"head","rank_z":1,"case":"easy"}],`+
			`"patterns":[{"e2":"e2","e3":"e3"}]}`,
		string(got),
	)

	r, err = NewTripleReport(t.Context(), g, g.Splits[kg.Test][0], Paper, 0)
	require.NoError(t, err)
	assert.Empty(t, r.Patterns)
	assert.EqualValues(t, 1, r.Z)
}
