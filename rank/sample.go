package rank

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/rank/internal/engine"
)

// screenSample holds some targets of a pass, each in a row with ψ of its query and its interval, and
// some candidates of a slice. The screens of codes derive their coordinates from it, and it shows how
// many pairs a screen would leave undecided. It serves the choice of a screen, whereas the candidates of
// a Sample are ranked.
type screenSample struct {
	*engine.Block
	f      *features
	rows   []int32     // rows of the candidates
	scores [][]float64 // scores of each row with the compared candidates; nil before compare
}

// screenSampleSize returns the numbers of targets and candidates in a sample for a ranking with the
// given numbers of both. The cost of a sample is a small part of the ranking's cost.
func screenSampleSize(targets, candidates int) (sampledTargets, sampledCandidates int) {
	return min(targets, max(16, min(targets/64, 512))), min(candidates, max(64, min(candidates/16, 512)))
}

// newScreenSample draws targets of a pass with their queries, and candidates of the loaded slice,
// both at regular distances.
func newScreenSample(ctx context.Context, e *cpuEngine, p engine.Pass) (*screenSample, error) {
	j, f := e.job, e.features
	begin, end := int(j.Queries[p.First].First), int(j.Queries[p.Last-1].Last)
	targets, candidates := screenSampleSize(end-begin, f.N)
	room, _ := e.Room()
	targets = min(targets, room)
	var plan engine.Plan
	next := p.First
	for i := range targets {
		t := begin + share(i, end-begin, targets)
		for int(j.Queries[next].Last) <= t {
			next++
		}
		q := j.Queries[next]
		q.First, q.Last = int32(i), int32(i)+1
		plan.Queries, plan.Targets = append(plan.Queries, q), append(plan.Targets, j.Targets[t])
	}
	s := &screenSample{f: f, Block: engine.NewBlock(&engine.Job{
		Model: j.Model, Backend: j.Backend, Tolerances: j.Tolerances, Plan: plan,
	}, e)}
	s.Begin(engine.Span{Last: len(plan.Queries)})
	for i := 0; i < f.N; i += (f.N + candidates - 1) / candidates {
		s.rows = append(s.rows, int32(i))
	}
	if err := s.ComputeVectors(ctx, &f.Features); err != nil {
		return nil, err
	}
	if j.Targets[begin].Answer < 0 {
		return s, s.boundBest(ctx, j.Threads)
	}
	return s, s.BoundTargets(ctx, &f.Features)
}

// boundBest uses the score of the best compared candidate as the score of a prediction's target,
// because the threshold of the query's list is not known yet.
func (s *screenSample) boundBest(ctx context.Context, threads int) error {
	if err := s.compare(ctx, threads); err != nil {
		return err
	}
	for row, scores := range s.scores {
		s.Low[row] = slices.Max(scores)
		s.High[row] = s.Low[row]
	}
	return nil
}

// compare computes the scores of the compared candidates, unless they are known.
func (s *screenSample) compare(ctx context.Context, threads int) error {
	if s.scores != nil {
		return nil
	}
	var rows []int32
	for i := 0; i < len(s.rows); i += everyCompared {
		rows = append(rows, s.rows[i])
	}
	s.scores = make([][]float64, len(s.Queries))
	return kernel.Parallel(ctx, threads, len(s.scores), func(_, row int) {
		s.scores[row] = make([]float64, len(rows))
		s.Job.Backend.Pair(s.Tower.Compare, s.scores[row], s.Row(row), s.f.Rows, s.f.Stride(), rows)
	})
}

// fitsCodes reports whether all norms are small enough that scores of codes cannot overflow.
func (s *screenSample) fitsCodes() bool {
	for _, norms := range [][]float64{s.f.Norms[:s.f.N], s.Norms[:len(s.Queries)]} {
		for _, n := range norms {
			if !(n < maxCodedNorm) {
				return false
			}
		}
	}
	return true
}

// coordinates returns coordinates that balance the sampled ψ and φ.
func (s *screenSample) coordinates() *coordinates {
	var psi, phi [][]float32
	for row := range s.Queries {
		psi = append(psi, s.Row(row))
	}
	for _, i := range s.rows {
		phi = append(phi, s.f.Row(i))
	}
	return newCoordinates(psi, phi, s.f.Tower.Phi)
}

// screens returns screens in the given formats, which derive their coordinates or grids from the
// sample.
func (s *screenSample) screens(formats []*codeFormat) (list []screen) {
	var c *coordinates
	for _, format := range formats {
		if format.distance != nil {
			list = append(list, format.distance(s))
			continue
		}
		if c == nil {
			c = s.coordinates()
		}
		b := s.Job.Backend
		list = append(list, format.new(codes{
			f: s.f, backend: b, kernels: format.panels(b, s.f.Tower.Compare), layout: format.layout(s.f.Tower),
			coordinates: c,
		}))
	}
	return list
}

// everyCompared is the distance between the candidates that a sample compares with its targets. The
// other candidates serve only to derive coordinates and panel groups.
const everyCompared = 4

// leftovers estimates the shares of the pairs that a screen leaves undecided. The bands are the
// same as in a ranking, except that the sample has fewer candidates in a panel group. It requires
// compare.
func (s *screenSample) leftovers(x screen) leftovers {
	f, bands := s.f, s.bands(x)
	compared := (len(s.rows) + everyCompared - 1) / everyCompared
	fine, rescored := 0, 0
	for row, scores := range s.scores {
		for k, score := range scores {
			i := k * everyCompared
			at := s.rows[i]
			if s.Targets[row].Answer == f.Slice.Entity(int(at)) {
				continue
			}
			panel, last := bands(row, i)
			slack := s.Slack(row, f.Sizes[at])
			gap := max(score-s.High[row], s.Low[row]-score)
			if gap <= s.Product(row, 0, panel, f.Norms[at])+slack {
				fine++
			}
			if gap <= s.Product(row, 0, last, f.Norms[at])+slack {
				rescored++
			}
		}
	}
	if _, ok := x.(refiner); !ok {
		fine = 0
	}
	pairs := float64(len(s.Queries)) * float64(compared)
	return leftovers{float64(fine) / pairs, float64(rescored) / pairs}
}

// bands returns a function that bounds the errors of the panel scores and of the fine scores of a
// sampled query and candidate. The two bounds are equal if the screen has no fine scores.
func (s *screenSample) bands(x screen) func(row, i int) (panel, fine float64) {
	f, width := s.f, s.f.Tower.Phi
	if x, ok := x.(sampledScreen); ok {
		return x.sampledBands(s)
	}
	coded, ok := x.(codedScreen)
	if !ok {
		compare := f.Tower.Compare
		relative, absolute := s.Job.Backend.PanelError(compare, f.Tower.Terms())
		return func(row, i int) (panel, fine float64) {
			size := s.Norms[row] * f.Norms[s.rows[i]]
			if compare.Distance() {
				size = math.Abs(s.scores[row][i/everyCompared])
			}
			band := relative*size + absolute
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

// groupsBy returns the number of panel groups for the candidates of a sample with the given sort keys,
// and the group of each candidate. A group has the same share of the candidates as in a ranking, but at
// least 32 candidates.
func (s *screenSample) groupsBy(key []float64) (count int, groupOf []int) {
	const least = 32
	n := len(key)
	count = max(1, min(n/least, s.f.N/(groupPanels*s.f.nr)))
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, k int) int { return cmp.Compare(key[i], key[k]) })
	groupOf = make([]int, n)
	for at, i := range order {
		groupOf[i] = at * count / n
	}
	return count, groupOf
}

// largestByGroup returns, for each candidate of a sample, the largest of the given residuals in its
// panel group. The candidates are sorted by residual.
func (s *screenSample) largestByGroup(residuals []float64) []float64 {
	count, groupOf := s.groupsBy(residuals)
	groups, list := make([]float64, count), make([]float64, len(residuals))
	for i, r := range residuals {
		groups[groupOf[i]] = max(groups[groupOf[i]], r)
	}
	for i := range list {
		list[i] = groups[groupOf[i]]
	}
	return list
}

// groups returns the panel groups for the candidates of a sample, and the group of each candidate.
func (s *screenSample) groups(c *codes) (groups []codeGroup, groupOf []int) {
	f, n := s.f, len(s.rows)
	x := make([]float64, int8Width(f.Tower.Phi))
	sizes, peaks := make([]float64, n), make([]float64, n)
	for i, at := range s.rows {
		c.coordinates.candidate(x, f.Row(at)[:f.Tower.Phi])
		sizes[i], peaks[i] = norm64(x), largest(x)
	}
	count, groupOf := s.groupsBy(peaks)
	groups = make([]codeGroup, count)
	for i := range s.rows {
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
