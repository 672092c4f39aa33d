package metrics

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
)

// FitOptions holds the options of FitEnsemble.
type FitOptions struct {
	// Rank holds the options of the rankings. Its Sides must be empty or contain both sides.
	Rank rank.Options
	// Progress, if not nil, is called after every step. The total may grow.
	Progress func(done, total int)
}

// FitEnsemble searches for the weights that give an ensemble the highest MRR on the given triples,
// over both sides, with filter all and realistic ties. It returns the weights, of which the first
// that is not 0 is 1, and the MRR, which is at least as high as the MRRs of equal weights and of
// each member alone. It ignores the weights in members.
//
// The search begins with equal weights or with one member alone, whichever is best. It then changes
// one weight at a time, relative to the weight of the best single member. It tries 0 and the powers
// of 4 from 1/64 to 64, continues beyond them as long as the MRR rises, and refines the best weight by
// factors of 2, √2, ⁴√2 and ⁸√2 in turn, up or down. With more than two members, it tries 0 and
// refines once more. Weights have three significant digits.
//
// FitEnsemble returns an error without members or triples, for sides that FitOptions does not allow, and
// the errors of model.NewEnsemble and rank.Run.
func FitEnsemble(
	ctx context.Context, members []model.Member, x *kg.Index, triples []kg.Triple, o FitOptions,
) (weights []float64, mrr float64, err error) {
	if len(triples) == 0 {
		return nil, 0, errors.New("metrics: fitting weights needs triples: give at least one")
	}
	if len(members) == 0 {
		return nil, 0, errors.New("metrics: fitting weights needs members: give at least one")
	}
	if sides := o.Rank.Sides; len(sides) > 0 && !(slices.Contains(sides, kg.Tail) && slices.Contains(sides, kg.Head)) {
		return nil, 0, errors.New("metrics: fitting weights needs both sides: leave out the sides, or give both")
	}
	n, passes := len(members), 1
	if n > 2 {
		passes = 2
	}
	f := ensembleFit{
		members: slices.Clone(members), index: x, triples: triples, options: o,
		best: math.Inf(-1), known: map[string]float64{},
		total: 1 + n + (n-1)*(1+2*coarseSteps+passes*(1+2*len(fineFactors))),
	}
	if _, err := f.try(ctx, slices.Repeat([]float64{1}, n)); err != nil {
		return nil, 0, err
	}
	anchor, highest := 0, math.Inf(-1)
	for i := range n {
		alone := make([]float64, n)
		alone[i] = 1
		mrr, err := f.try(ctx, alone)
		if err != nil {
			return nil, 0, err
		}
		if mrr > highest {
			anchor, highest = i, mrr
		}
	}
	for pass := range passes {
		for i := range n {
			if i == anchor {
				continue
			}
			if pass == 0 {
				err = f.scan(ctx, i)
			}
			if err == nil {
				err = f.refine(ctx, i)
			}
			if err != nil {
				return nil, 0, err
			}
		}
	}
	return normalised(f.weights), f.best, nil
}

// The search tries the powers of coarseFactor up to coarseSteps in both directions, and at most up
// to mostSteps as long as the MRR rises.
const (
	coarseFactor = 4
	coarseSteps  = 3
	mostSteps    = 16
)

// fineFactors are the factors of the refinement, in order.
var fineFactors = []float64{2, math.Sqrt2, math.Sqrt(math.Sqrt2), math.Sqrt(math.Sqrt(math.Sqrt2))}

// ensembleFit is the state of a search for weights.
type ensembleFit struct {
	members     []model.Member
	index       *kg.Index
	triples     []kg.Triple
	options     FitOptions
	weights     []float64          // the best so far
	best        float64            // their MRR
	known       map[string]float64 // the MRR of all normalised weights so far
	done, total int
}

// scan tries 1 and the powers of coarseFactor as the weight of a member.
func (f *ensembleFit) scan(ctx context.Context, member int) error {
	weights := slices.Clone(f.weights)
	weights[member] = 1
	one, err := f.try(ctx, weights)
	if err != nil {
		return err
	}
	for _, factor := range []float64{1 / float64(coarseFactor), coarseFactor} {
		weights[member] = 1
		for step, last, rises := 1, one, false; step <= coarseSteps || rises && step <= mostSteps; step++ {
			if step > coarseSteps {
				f.total++
			}
			weights[member] *= factor
			mrr, err := f.try(ctx, weights)
			if err != nil {
				return err
			}
			last, rises = mrr, mrr > last
		}
	}
	return nil
}

// refine tries 0 as the weight of a member, and then multiplies the best weight by each of
// fineFactors, or divides it, if this raises the MRR.
func (f *ensembleFit) refine(ctx context.Context, member int) error {
	weights := slices.Clone(f.weights)
	weights[member] = 0
	if _, err := f.try(ctx, weights); err != nil {
		return err
	}
	for _, factor := range fineFactors {
		before := f.weights[member]
		for _, w := range []float64{before * factor, before / factor} {
			weights[member] = w
			if _, err := f.try(ctx, weights); err != nil {
				return err
			}
		}
	}
	return nil
}

// try returns the MRR with the given weights, normalised, and keeps them if they are the best so far.
func (f *ensembleFit) try(ctx context.Context, weights []float64) (float64, error) {
	list := normalised(weights)
	key := fmt.Sprint(list)
	mrr, ranked := f.known[key]
	if !ranked {
		for i, w := range list {
			f.members[i].Weight = w
		}
		var err error
		if mrr, err = f.mrr(ctx); err != nil {
			return 0, err
		}
		f.known[key] = mrr
	}
	if mrr > f.best {
		f.best, f.weights = mrr, slices.Clone(weights)
	}
	if f.done++; f.options.Progress != nil {
		f.options.Progress(f.done, f.total)
	}
	return mrr, nil
}

// normalised divides weights by the first that is not 0, and rounds them to three significant digits.
func normalised(weights []float64) (list []float64) {
	first := weights[slices.IndexFunc(weights, func(w float64) bool { return w != 0 })]
	for _, w := range weights {
		list = append(list, threeDigits(w/first))
	}
	return list
}

// threeDigits rounds a number to three significant digits.
func threeDigits(x float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64)
	if err != nil {
		panic(fmt.Sprintf("metrics: %v has no three digits", x))
	}
	return rounded
}

// mrr ranks the triples with the weights of the members and returns the MRR.
func (f *ensembleFit) mrr(ctx context.Context) (float64, error) {
	m, err := model.NewEnsemble(f.members)
	if err != nil {
		return 0, err
	}
	r, err := rank.Run(ctx, m, f.index, f.triples, f.options.Rank)
	if err != nil {
		return 0, err
	}
	return float64(Measure(r.Ranks, rank.BothSides, rank.All, rank.Realistic, nil).MRR), nil
}
