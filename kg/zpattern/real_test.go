package zpattern

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
)

func countCases(values []Value) (n [NumCases]int) {
	for _, v := range values {
		n[v.Case]++
	}
	return n
}

// With the convention Paper, the counts of cases equal the published table, except the count of
// neutral cases of WN18RR, in which the table transposes two digits. The table prints 2,679 instead
// of 2,697, although the cases must add up to the 3,134 test triples.
func TestPublishedCases(t *testing.T) {
	for _, want := range []struct {
		data       string
		convention Convention
		cases      [NumCases]int
	}{
		{"fb15k-237", Paper, [NumCases]int{6681, 6546, 7239}},
		{"wn18", Paper, [NumCases]int{356, 4331, 313}},
		{"wn18rr", Paper, [NumCases]int{314, 2697, 123}},
		{"fb15k-237", Definition, [NumCases]int{6926, 6300, 7240}},
	} {
		t.Run(want.data+" "+want.convention.String(), func(t *testing.T) {
			g := realGraph(t, want.data)
			x, err := NewIndex(t.Context(), g)
			require.NoError(t, err)
			values, err := x.Values(t.Context(), g.Splits[kg.Test], kg.Tail, want.convention, 0, nil)
			require.NoError(t, err)
			assert.Equal(t, want.cases, countCases(values))
		})
	}
}

// The values on the head side equal the values on the tail side after exchanging heads and tails.
func TestHeadSideIsTheMirror(t *testing.T) {
	g := realGraph(t, "wn18rr")
	mirror := &kg.Graph{Name: g.Name, Entities: g.Entities, Relations: g.Relations}
	for s, triples := range g.Splits {
		for _, triple := range triples {
			triple.Head, triple.Tail = triple.Tail, triple.Head
			mirror.Splits[s] = append(mirror.Splits[s], triple)
		}
	}
	x, err := NewIndex(t.Context(), g)
	require.NoError(t, err)
	y, err := NewIndex(t.Context(), mirror)
	require.NoError(t, err)
	for c := range numConventions {
		heads, err := x.Values(t.Context(), g.Splits[kg.Test], kg.Head, c, 2, nil)
		require.NoError(t, err)
		tails, err := y.Values(t.Context(), mirror.Splits[kg.Test], kg.Tail, c, 2, nil)
		require.NoError(t, err)
		assert.Equal(t, tails, heads)
	}
}

func BenchmarkNewIndex(b *testing.B) {
	g := realGraph(b, "fb15k-237")
	for b.Loop() {
		if _, err := NewIndex(b.Context(), g); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValues(b *testing.B) {
	for _, name := range []string{"fb15k-237", "fb15k", "wn18rr"} {
		b.Run(name, func(b *testing.B) {
			g := realGraph(b, name)
			x, err := NewIndex(b.Context(), g)
			require.NoError(b, err)
			var largest uint64
			for b.Loop() {
				for _, side := range []kg.Side{kg.Tail, kg.Head} {
					values, err := x.Values(b.Context(), g.Splits[kg.Test], side, Paper, 0, nil)
					if err != nil {
						b.Fatal(err)
					}
					for _, v := range values {
						largest = max(largest, v.Z)
					}
				}
			}
			b.ReportMetric(float64(largest), "largest-z")
		})
	}
}

// BenchmarkSample draws 256 triples for each of 16,384 queries of random training triples. Each
// query has 256 uniformly drawn unobserved candidates.
func BenchmarkSample(b *testing.B) {
	for _, name := range []string{"fb15k-237", "wn18rr"} {
		b.Run(name, func(b *testing.B) {
			const m, k, positives = 256, 256, 1 << 14
			g := realGraph(b, name)
			x, err := NewIndex(b.Context(), g)
			require.NoError(b, err)
			known := kgtest.Index(b, g)
			rng := rand.New(rand.NewPCG(1, 1))
			train := g.Splits[kg.Train]
			queries := make([]kg.Query, positives)
			candidates := make([][]int32, positives)
			for i := range queries {
				queries[i], _ = train[rng.IntN(len(train))].Query(kg.Side(i % 2))
				a := known.Answers(queries[i])
				for len(candidates[i]) < m {
					e := rng.Int32N(int32(g.Entities.Len()))
					if at, found := slices.BinarySearch(a.Entities, e); !found || !a.Splits[at].Has(kg.Train) {
						candidates[i] = append(candidates[i], e)
					}
				}
			}
			s, dst := x.NewSampler(), make([]kg.Triple, 0, k)
			// The shortest of several durations of a query excludes most of the machine's noise.
			took := slices.Repeat([]time.Duration{time.Hour}, positives)
			empty, i := 0, 0
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				_, size := s.Sample(dst, queries[i%positives], candidates[i%positives], k, rng)
				took[i%positives] = min(took[i%positives], time.Since(start))
				if size == 0 {
					empty++
				}
				i++
			}
			took = took[:min(i, positives)]
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "median-ns")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
			b.ReportMetric(float64(took[len(took)-1].Nanoseconds()), "worst-ns")
			b.ReportMetric(float64(empty)/float64(i), "empty")
		})
	}
}
