package metrics

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/rank"
)

// Sample describes candidates that were drawn at random for each query (rank.Draw).
type Sample struct {
	// Candidates is the number of drawn candidates, or the largest number if some queries have fewer.
	Candidates int    `json:"candidates"`
	Seed       uint64 `json:"seed"`
	// Exact reports whether every candidate was drawn for every query, so that all metrics are exact.
	Exact bool `json:"exact,omitempty"`
}

func (s *Sample) String() string {
	if s.Exact {
		return "all drawn for each query"
	}
	return fmt.Sprintf("estimated from %s drawn for each query (seed %d)", text.Comma(s.Candidates), s.Seed)
}

// Estimate says how far the metrics of a report, which are estimates from a Sample, may be from the
// metrics among all candidates.
type Estimate struct {
	// Unbiased lists the metrics whose expected value over all samples is the exact value. The
	// expected MRR is at least the exact MRR, and the other metrics are biased in either direction.
	Unbiased []string `json:"unbiased"`
	// Exact reports whether every candidate was drawn for every query, so that all metrics are exact.
	Exact bool `json:"exact,omitempty"`
	// MRLow and MRHigh are the 95% interval of the exact MR of these queries, by a normal
	// approximation. The interval is undefined if only one of several candidates was drawn for a
	// query. It belongs to the last result of the report.
	MRLow  Number `json:"mr_ci_low"`
	MRHigh Number `json:"mr_ci_high"`
	// Within holds the metrics of the ranks within the samples, which other tools report. Its MRR
	// and Hits@k are never below the exact values.
	Within Result `json:"within"`
}

// SetEstimate sets the Estimate of a report that summarises scaled ranks (rank.Sample.Scale). Every
// target must be a candidate of its query, because a Rank does not say whether its Candidates include
// the target. The tie rule must not be rank.Rounded, whose ranks have no unbiased estimate.
func (r *Report) SetEstimate(ranks []rank.Rank) {
	last := r.headline()
	within := slices.Clone(ranks)
	var variance Number
	count, exact := 0, true
	for i := range within {
		k := &within[i]
		if !slices.Contains(last.Side.List(), k.Side) {
			continue
		}
		count++
		population := float64(k.Candidates[last.Filter] - 1)
		drawn := 0.0
		if k.Scale > 0 {
			drawn = math.Round(population / k.Scale)
		}
		exact = exact && drawn == population
		variance += rankVariance(k, last.Filter, last.Ties, population, drawn)
		k.Scale, k.Candidates[last.Filter] = 0, int32(drawn)+1
	}
	margin := 1.96 * Number(math.Sqrt(float64(variance))) / Number(count)
	var ks []int
	for _, h := range last.Hits {
		ks = append(ks, h.K)
	}
	r.Estimate = &Estimate{
		Unbiased: []string{"mr", "amr", "amri"}, Exact: exact, MRLow: last.MR - margin, MRHigh: last.MR + margin,
		Within: Measure(within, last.Side, last.Filter, last.Ties, ks),
	}
	r.Estimate.Within.ClusterCount = last.ClusterCount // the queries are the same
}

// rankVariance estimates the variance of an estimated rank over samples without replacement
// (Cochran, Sampling Techniques, 1977, section 2.6). A candidate counts as 1 if it is better than
// the target. An equal candidate counts as 0, ½ or 1, depending on the tie rule.
func rankVariance(r *rank.Rank, f rank.Filter, t rank.Ties, population, drawn float64) Number {
	if drawn == population {
		return 0
	}
	if drawn < 2 {
		return undefined
	}
	equal := map[rank.Ties]float64{rank.Optimistic: 0, rank.Realistic: 0.5, rank.Pessimistic: 1}[t]
	b, e := float64(r.Better[f]), float64(r.Equal[f])
	sum, squares := b+equal*e, b+equal*equal*e
	spread := (squares - sum*sum/drawn) / (drawn - 1)
	return Number(population * population * (1 - drawn/population) * spread / drawn)
}

// Notes explains the estimate below a table.
func (e *Estimate) Notes(s *Sample, o TableOptions) string {
	if e.Exact {
		return text.Wrap("Every candidate was drawn for every query, so the metrics are exact.")
	}
	w := e.Within
	var hits []string
	for _, h := range w.Hits {
		hits = append(hits, fmt.Sprintf("Hits@%d %s", h.K, o.share(h.Share)))
	}
	drawn := text.Count(s.Candidates, "candidate drawn for each query stands",
		"candidates drawn for each query stand")
	interval, bias := "", ""
	if !o.NoCI {
		interval = fmt.Sprintf("; the 95%% interval of the exact MR is [%s, %s]", o.mean(e.MRLow), o.mean(e.MRHigh))
		if math.IsNaN(float64(e.MRLow)) {
			interval = "; the exact MR has no interval, because the spread of one drawn candidate is unknown"
		}
		bias = " The interval of the MRR does not include its bias."
	}
	estimate := fmt.Sprintf("Estimate: %s for all candidates. MR, AMR and AMRI are unbiased%s. MRR is too high on "+
		"average, and Hits@k, the median and GMR are biased too.%s", drawn, interval, bias)
	within := fmt.Sprintf("Ranks within the samples: MRR %s, MR %s, %s.",
		o.share(w.MRR), o.mean(w.MR), strings.Join(hits, ", "))
	return text.Wrap(estimate) + "\n" + text.Wrap(within)
}
