package metrics

import (
	"context"
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
	// Rank holds the options of the rankings. Its Sides must be nil or contain both sides.
	Rank rank.Options
	// Progress, if not nil, is called after every ranking.
	Progress func(done, total int)
}

// FitEnsemble searches for the weights that give an ensemble the highest MRR on the given triples,
// over both sides, with filter all and realistic ties. It returns the weights, the first of which
// is 1, and the MRR. It ignores the weights in members.
//
// The search changes one weight at a time. It tries the powers of 4 from 1/64 to 64, and then
// refines the best weight by factors of 2, √2 and ⁴√2 in turn, up or down. With more than two
// members, it repeats the refinement once. Weights have three significant digits.
func FitEnsemble(
	ctx context.Context, members []model.Member, x *kg.Index, triples []kg.Triple, o FitOptions,
) (weights []float64, mrr float64, err error) {
	f := ensembleFit{members: slices.Clone(members), index: x, triples: triples, options: o}
	passes := 1
	if len(members) > 2 {
		passes = 2
	}
	factors := []float64{2, 1 / 2.0, math.Sqrt2, 1 / math.Sqrt2, math.Sqrt(math.Sqrt2), 1 / math.Sqrt(math.Sqrt2)}
	coarse := []float64{1 / 4.0, 4, 1 / 16.0, 16, 1 / 64.0, 64}
	f.total = 1 + (len(members)-1)*(len(coarse)+passes*len(factors))
	for i := range f.members {
		f.members[i].Weight = 1
	}
	if f.best, err = f.mrr(ctx); err != nil {
		return nil, 0, err
	}
	for pass := range passes {
		for i := 1; i < len(f.members); i++ {
			if pass == 0 {
				if err := f.try(ctx, i, coarse...); err != nil {
					return nil, 0, err
				}
			}
			for k := 0; k < len(factors); k += 2 {
				if err := f.try(ctx, i, factors[k:k+2]...); err != nil {
					return nil, 0, err
				}
			}
		}
	}
	for _, m := range f.members {
		weights = append(weights, m.Weight)
	}
	return weights, f.best, nil
}

// ensembleFit is the state of a search for weights. The members have the best weights so far.
type ensembleFit struct {
	members     []model.Member
	index       *kg.Index
	triples     []kg.Triple
	options     FitOptions
	best        float64 // the MRR
	done, total int
}

// try multiplies the weight of a member by the factor that gives the highest MRR: 1 or one of the given
// factors. If several factors give this MRR, the first of them wins.
func (f *ensembleFit) try(ctx context.Context, member int, factors ...float64) error {
	weight := &f.members[member].Weight
	before, chosen := *weight, *weight
	for _, factor := range factors {
		*weight = threeDigits(before * factor)
		mrr, err := f.mrr(ctx)
		if err != nil {
			return err
		}
		if mrr > f.best {
			f.best, chosen = mrr, *weight
		}
	}
	*weight = chosen
	return nil
}

// threeDigits rounds a positive number to three significant digits.
func threeDigits(x float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64)
	if err != nil {
		panic(fmt.Sprintf("metrics: %v has no three digits", x))
	}
	return rounded
}

// mrr ranks the triples with the current weights and returns the MRR.
func (f *ensembleFit) mrr(ctx context.Context) (float64, error) {
	m, err := model.NewEnsemble(f.members)
	if err != nil {
		return 0, err
	}
	r, err := rank.Run(ctx, m, f.index, f.triples, f.options.Rank)
	if err != nil {
		return 0, err
	}
	if f.done++; f.options.Progress != nil {
		f.options.Progress(f.done, f.total)
	}
	return float64(Measure(r.Ranks, rank.BothSides, rank.All, rank.Realistic, nil).MRR), nil
}
