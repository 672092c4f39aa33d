package rank

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/kgtest"
	"github.com/mquine/mquine/rank/internal/engine"
	"github.com/mquine/mquine/rank/internal/ranktest"
)

// TestExactHubs checks that ranks are exact if a few queries have many targets and many known answers,
// in some rows of a block only, for every screen and tier and with ties.
func TestExactHubs(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(17, 9))
	const entities = 1100
	g := ranktest.Graph(rng, entities, 3, 300, 20, 20)
	// The first query has more targets than a row. Answers are known from one to three splits.
	for i, hub := range []struct{ targets, known int }{{700, 500}, {120, 40}, {40, 300}, {5, 600}, {300, 0}} {
		add := func(split kg.Split, n int) {
			for _, e := range rng.Perm(entities)[:n] {
				triple := kg.Triple{Head: int32(i), Relation: int32(i % 2), Tail: int32(e)}
				g.Splits[split] = append(g.Splits[split], triple)
			}
		}
		add(kg.Train, hub.known)
		add(kg.Valid, hub.known/2)
		add(kg.Test, hub.targets)
	}
	index, test := kgtest.Index(t, g), g.Splits[kg.Test]
	sides := []kg.Side{kg.Tail}
	for k, kind := range ranktest.VectorKinds {
		switch kind.Name {
		case "random", "few distinct rows", "small integers", "huge and tiny norms":
		default:
			continue
		}
		for i, c := range ranktest.VectorConfigs(12, g) {
			if (i+k)%6 != 0 || testing.Short() && (i+k)%12 != 0 {
				continue // other models have the same comparisons
			}
			m := ranktest.ModelOf(t, c, 5, kind)
			want := bruteForce(m, g, test, sides, m.NewWorker(backends[0]).Reference)
			for n, b := range backends {
				for _, o := range []Options{
					{Threads: 1, Screen: Float32Screen},
					{Threads: 3, Tolerances: []Tolerance{{Relative: 0.1}}}, // in the same rows
					{Threads: 2, Screen: Int8Screen, FeatureMemory: 500 * featureBytes(engine.WidestTower(m))},
					{Threads: 2, Screen: Int16Screen}, {Threads: 1, Screen: int16Tiles},
				} {
					if !o.Screen.Fits(m.Tower(kg.Tail).Compare) || sameTwin(b, o.Screen, m.Tower(kg.Tail).Compare) ||
						n != (i+k)%len(backends) && b.Tier == kernel.Generic {
						continue
					}
					o.Backend, o.Sides = b, sides
					got, err := Run(t.Context(), m, index, test, o)
					require.NoError(t, err)
					for j := range want {
						require.Equal(t, want[j], got.Ranks[j], "%s, %s, %s, %s, %d threads",
							kind.Name, c.Model, b.Tier, o.Screen, o.Threads)
					}
				}
			}
		}
	}
}

// TestSubtractor compares the counts of a subtractor with a comparison of every known answer with
// every target, for several groups with different thresholds, and scores that equal thresholds or
// are not finite.
func TestSubtractor(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 10))
	special := []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 0}
	value := func() float32 {
		if rng.IntN(8) == 0 {
			return special[rng.IntN(len(special))]
		}
		return float32(rng.IntN(9) - 4)
	}
	const nr, rows = 32, 6
	s, sorted := newSubtractor(rows), 0
	for range 200 {
		b := &engine.Block{Queries: make([]engine.Query, rows), TargetStart: make([]int32, rows+1)}
		for row := range rows {
			b.TargetStart[row+1] = b.TargetStart[row] + int32(rng.IntN(3*manyTargets))
		}
		n := b.TargetStart[rows]
		b.Targets, b.Counts = make([]engine.Target, n), make([]engine.Counts, n)
		want := make([]engine.Counts, n)
		s.reset(b)
		for range 3 { // panel groups
			ends, panels := make([]float32, 2*n), make([][]knownAnswer, 3)
			for i := range ends {
				ends[i] = value()
				for ends[i] != ends[i] { // NaN
					ends[i] = value()
				}
			}
			var group []knownAnswer
			for p := range panels {
				for row := range rows {
					for lane := range rng.IntN(nr) {
						k := knownAnswer{int32(p), uint16(row), uint8(lane), uint8(rng.IntN(8))}
						panels[p] = append(panels[p], k)
					}
				}
				group = append(group, panels[p]...)
			}
			s.begin(b, group, ends)
			for _, known := range panels {
				scores := make([]float32, rows*nr)
				for i := range scores {
					scores[i] = value()
				}
				s.subtract(b, known, scores, nr, ends)
				for _, k := range known {
					for i := b.TargetStart[k.row]; i < b.TargetStart[k.row+1]; i++ {
						if scores[int(k.row)*nr+int(k.lane)] > ends[2*i+1] {
							addFilters(&want[i].Better, k.filters, -1)
						}
					}
				}
			}
			s.finish(b)
			for _, is := range s.sorted {
				if is {
					sorted++
				}
			}
		}
		require.Equal(t, want, b.Counts)
	}
	require.InDelta(t, 200*3*rows*0.6, sorted, 200*3*rows*0.2, "some rows are sorted, and others are not")
}
