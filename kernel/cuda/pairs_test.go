//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestDecide compares the float64 stage with plain float64 scores, for clear decisions, equal
// parameters, the target itself, and pairs that the stage cannot decide.
func TestDecide(t *testing.T) {
	_, d := openStandin(t)
	conformDecide(newRig(t, d))
}

func TestGPUDecide(t *testing.T) { conformDecide(openGPU(t)) }

func conformDecide(r *rig) {
	rng := rand.New(rand.NewPCG(5, 5))
	p := newProblem(rng, 6, 50, 70, normals(rng), func(q int) int { return q })
	targets := len(p.ends) / 2
	for _, c := range supported() {
		// The answer of target t is candidate t. Candidate 49 has the same parameters as candidate
		// 3. Candidate 48 is undecided for every target.
		entity, same, norm, size := make([]int32, 50), make([]int32, 50), norms(p.phi, p.k), make([]float64, 50)
		for e := range entity {
			entity[e], same[e] = int32(e), int32(e)
		}
		same[49] = 3
		size[48] = 1
		rows := make([]PairRow, 6)
		row, answer, interval := make([]int32, targets), make([]int32, targets), make([]float64, 2*targets)
		for q := range rows {
			rows[q] = PairRow{Norm: norms(p.psi, p.k)[q], Slack: [3]float64{0, 0, 1e30}}
			for i := p.first[q]; i < p.first[q+1]; i++ {
				row[i], answer[i] = int32(q), i
				s := p.score(c, q, int(i))
				interval[2*i], interval[2*i+1] = s-1e-12*math.Abs(s), s+1e-12*math.Abs(s)
			}
		}
		var list []Pair
		var known []Known
		for i := range targets {
			for e := range 50 {
				list = append(list, Pair{uint32(i), uint32(e)})
			}
		}
		for q := range rows {
			for e := range 50 {
				known = append(known, Known{uint32(q), uint32(e), uint32(2 + e%3*2)}) // filters 1, 2, both
			}
		}
		rest, counts := up(r, make([]Pair, 1000)), up(r, make([]int32, 8*targets))
		a := Decide{
			Psi: up(r, p.psi).At(0), Phi: up(r, p.phi).At(0), Rows: up(r, rows).At(0), Norms: up(r, norm).At(0),
			Sizes:  up(r, size).At(0),
			Entity: up(r, entity).At(0), Same: up(r, same).At(0), TargetStart: up(r, p.first).At(0),
			TargetRow: up(r, row).At(0), Interval: up(r, interval).At(0),
			Answer: up(r, answer).At(0), AnswerSame: up(r, answer).At(0), Better: counts.At(0),
			Equal: counts.At(int64(4 * targets)),
			List:  up(r, list).At(0), Listed: up(r, []uint32{uint32(len(list))}).At(0), Known: up(r, known).At(0),
			Rest: rest.At(0), Rested: up(r, []uint32{0}).At(0),
			Room: 1000, Count: uint32(len(list)), K: int32(p.k), Compare: int32(c.Kind()), Targets: int32(targets),
			Relative: c.PairError(p.k),
		}
		r.stages.Pairs(r.s, a)
		got := down[int32](r, counts, 2*targets)
		left := map[Pair]bool{}
		for _, pair := range down[Pair](r, rest, targets) {
			left[pair] = true
		}
		verdict := func(i, e int) (better, equal bool) {
			if e == i || e == 48 {
				return false, false
			}
			return same[e] != int32(i) && p.score(c, int(row[i]), e) > interval[2*i+1], same[e] == int32(i)
		}
		for i := range targets {
			better, equal := int32(0), int32(0)
			for e := range 50 {
				x, y := verdict(i, e)
				if x {
					better++
				}
				if y {
					equal++
				}
			}
			assert.Equal(r.t, better, got[i], "%s: target %d", c, i)
			assert.Equal(r.t, equal, got[targets+i], "%s: target %d", c, i)
			assert.True(r.t, left[Pair{uint32(i), 48}], "%s: target %d", c, i)
		}
		assert.Len(r.t, left, targets, c.String())

		removed := up(r, make([]int32, 6*targets))
		a.Better, a.Equal, a.Count, a.Rested = removed.At(0), removed.At(int64(12*targets)), uint32(len(known)),
			up(r, []uint32{0}).At(0)
		r.stages.Known(r.s, a)
		got = down[int32](r, removed, 6*targets)
		for i := range targets {
			for f := range 3 { // filters
				better, equal := int32(0), int32(0)
				for _, k := range known {
					if int32(k.Row) != row[i] || k.Filters>>f&1 == 0 {
						continue
					}
					x, y := verdict(i, int(k.Position))
					if x {
						better++
					}
					if y {
						equal++
					}
				}
				assert.Equal(r.t, better, got[f*targets+i], "%s: target %d, filter %d", c, i, f)
				assert.Equal(r.t, equal, got[(3+f)*targets+i], "%s: target %d, filter %d", c, i, f)
			}
		}
	}
}
