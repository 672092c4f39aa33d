package rank

import (
	"cmp"
	"context"
	"slices"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/rank/internal/engine"
)

// sample holds some queries of a pass, with ψ and the intervals of their targets, and some
// candidates of a slice. The screens of codes derive their coordinates from it, and it shows how
// many pairs a screen would leave undecided.
type sample struct {
	*engine.Block
	f       *features
	weights []float64   // the number of targets that a target of each query stands for
	rows    []int32     // of the candidates
	scores  [][]float64 // of the candidates for each query; nil before the first estimate
}

// mostSampledTargets bounds the targets of a sampled query.
const mostSampledTargets = 16

// sampleSize returns the numbers of queries and candidates in a sample. The cost of a sample is a
// small part of the ranking's cost.
func sampleSize(queries, candidates int) (sampledQueries, sampledCandidates int) {
	return min(queries, max(16, min(queries/64, 128))), min(candidates, max(64, min(candidates/16, 512)))
}

// newSample draws queries of a pass, and candidates, at regular distances.
func newSample(ctx context.Context, e *cpuEngine, p engine.Pass) (*sample, error) {
	j, f := e.job, e.features
	queries, candidates := sampleSize(p.Last-p.First, f.N)
	room, _ := e.Room()
	queries = min(queries, room)
	s := &sample{f: f}
	var plan engine.Plan
	for i := p.First; i < p.Last; i += (p.Last - p.First + queries - 1) / queries {
		q, first := j.Queries[i], int32(len(plan.Targets))
		step := (q.Last - q.First + mostSampledTargets - 1) / mostSampledTargets
		for t := q.First; t < q.Last; t += step {
			plan.Targets = append(plan.Targets, j.Targets[t])
		}
		targets := q.Last - q.First
		q.First, q.Last = first, int32(len(plan.Targets))
		plan.Queries = append(plan.Queries, q)
		s.weights = append(s.weights, float64(targets)/float64(q.Last-first))
	}
	s.Block = engine.NewBlock(&engine.Job{
		Model: j.Model, Backend: j.Backend, First: j.First, Last: j.Last, Plan: plan,
	}, e)
	s.Begin(engine.Span{Last: len(plan.Queries)})
	for i := 0; i < f.N; i += (f.N + candidates - 1) / candidates {
		s.rows = append(s.rows, int32(i))
	}
	if err := s.ComputeVectors(ctx, &f.Features); err != nil {
		return nil, err
	}
	return s, s.BoundTargets(ctx, &f.Features)
}

// fitsCodes reports whether no norm is so large that a score of codes might overflow.
func (s *sample) fitsCodes() bool {
	for _, norms := range [][]float64{s.f.Norms[:s.f.N], s.Norms[:len(s.Queries)]} {
		for _, n := range norms {
			if !(n < 0x1p60) {
				return false
			}
		}
	}
	return true
}

// coordinates returns coordinates that balance the sampled ψ and φ.
func (s *sample) coordinates() *coordinates {
	var psi, phi [][]float32
	for row := range s.Queries {
		psi = append(psi, s.Row(row))
	}
	for _, i := range s.rows {
		phi = append(phi, s.f.Row(i))
	}
	return newCoordinates(psi, phi, s.f.Tower.Phi)
}

// leftovers estimates the pairs that a screen leaves undecided. The bands are the same as in a
// ranking, except that the sample has fewer candidates in a panel group.
func (s *sample) leftovers(x screen) leftovers {
	f, bands := s.f, s.bands(x)
	if s.scores == nil {
		s.scores = make([][]float64, len(s.Queries))
		for row := range s.scores {
			s.scores[row] = make([]float64, len(s.rows))
			s.Job.Backend.Pair(kernel.Dot, s.scores[row], s.Row(row), f.Rows, f.Stride(), s.rows)
		}
	}
	var fine, rescored, pairs float64
	for row, scores := range s.scores {
		for i, at := range s.rows {
			first, last := bands(row, i)
			slack := s.Slack(row, f.Sizes[at])
			first, last = s.Product(row, 0, first, f.Norms[at])+slack, s.Product(row, 0, last, f.Norms[at])+slack
			for t := s.TargetStart[row]; t < s.TargetStart[row+1]; t++ {
				if s.Targets[t].Answer == at+int32(f.First) {
					continue
				}
				pairs += s.weights[row]
				gap := max(scores[i]-s.High[t], s.Low[t]-scores[i])
				if gap <= first {
					fine += s.weights[row]
				}
				if gap <= last {
					rescored += s.weights[row]
				}
			}
		}
	}
	if _, ok := x.(refiner); !ok {
		fine = 0
	}
	return leftovers{fine / max(pairs, 1), rescored / max(pairs, 1)}
}

// bands returns a function that bounds the errors of the panel scores and of the fine scores of a
// sampled query and candidate. They are equal if the screen has no fine scores.
func (s *sample) bands(x screen) func(row, i int) (panel, fine float64) {
	f, width := s.f, s.f.Tower.Phi
	coded, ok := x.(codedScreen)
	if !ok {
		relative, absolute := s.Job.Backend.PanelError(kernel.Dot, width)
		return func(row, i int) (panel, fine float64) {
			band := relative*s.Norms[row]*f.Norms[s.rows[i]] + absolute
			return band, band
		}
	}
	c := coded.common()
	words := int8Words(width)
	memory := make([]uint32, 2*words)
	var q packedQueries
	q.coded, q.rotated = make([]codedQuery, len(s.Queries)), make([]float64, int8Width(width))
	for row := range s.Queries {
		c.code(&q, &s.Vectors, row, memory, memory[:words], memory[words:])
	}
	groups, groupOf := s.groups(c)
	return func(row, i int) (panel, fine float64) { return coded.bands(&q.coded[row], &groups[groupOf[i]]) }
}

// groups returns the panel groups for the candidates of a sample, and the group of each candidate.
// A group has the same share of the candidates as in a ranking, but at least 32 candidates.
func (s *sample) groups(c *codes) (groups []codeGroup, groupOf []int) {
	const least = 32
	f, n := s.f, len(s.rows)
	x := make([]float64, int8Width(f.Tower.Phi))
	sizes, peaks, order := make([]float64, n), make([]float64, n), make([]int, n)
	for i, at := range s.rows {
		c.coordinates.candidate(x, f.Row(at)[:f.Tower.Phi])
		sizes[i], peaks[i], order[i] = norm64(x), largest(x), i
	}
	slices.SortFunc(order, func(i, k int) int { return cmp.Compare(peaks[i], peaks[k]) })
	count := max(1, min(n/least, f.N/(groupPanels*f.nr)))
	groups, groupOf = make([]codeGroup, count), make([]int, n)
	for at, i := range order {
		groupOf[i] = at * count / n
		g := &groups[groupOf[i]]
		g.norm, g.step = max(g.norm, sizes[i]), max(g.step, peaks[i])
	}
	for k := range groups {
		groups[k].step = step(groups[k].step)
	}
	coarse, fine := make([]uint8, len(x)), make([]uint8, len(x))
	for i, at := range s.rows {
		g := &groups[groupOf[i]]
		c.coordinates.candidate(x, f.Row(at)[:f.Tower.Phi])
		code := kernel.CodeInt8(coarse, fine, x, g.step, c.layout.offset)
		g.residual, g.fineNorm = max(g.residual, code.Residual), max(g.fineNorm, code.FineNorm)
		g.fineResidual = max(g.fineResidual, code.FineResidual)
	}
	return groups, groupOf
}
