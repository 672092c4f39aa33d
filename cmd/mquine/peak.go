package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/ceiling"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
)

// peakTime is the duration of one measurement of a ceiling.
const peakTime = 300 * time.Millisecond

// peakRates holds measured ceilings of the processor: floating-point operations per second, and
// terms of a comparison per second. A nil *peakRates stands for "not requested", and its methods do
// nothing.
type peakRates struct {
	compare    kernel.Comparison
	tier       kernel.Tier
	fma, terms []float64
}

// measure measures the ceilings of the best backend, and keeps earlier measurements.
func (c *peakRates) measure() error {
	if c == nil {
		return nil
	}
	b, err := kernel.New()
	if err != nil {
		return err
	}
	c.tier = b.Tier
	c.fma = append(c.fma, 2*ceiling.Terms(b, kernel.Dot).Rate(runtime.GOMAXPROCS(0), peakTime))
	c.terms = append(c.terms, ceiling.Terms(b, c.compare).Rate(runtime.GOMAXPROCS(0), peakTime))
	return nil
}

// report fills in the ceilings and the shares of them that a ranking of pairs with tower t reached.
func (c *peakRates) report(r *metrics.Report, t model.Tower, pairs int64) {
	if c == nil {
		return
	}
	gterms := float64(t.Terms()) * float64(pairs) / 1e9 / r.Timing.Rank
	r.FMAGFLOPSAll, r.GtermsAll = stat.Mean(c.fma, nil)/1e9, stat.Mean(c.terms, nil)/1e9
	r.Share = c.compare.PortOperations() * gterms / r.FMAGFLOPSAll
	r.ComparisonShare = gterms / r.GtermsAll
}

// print prints the ceilings and the shares of them that the ranking reached.
func (c *peakRates) print(w io.Writer, r *metrics.Report) error {
	if c == nil {
		return nil
	}
	lines := []string{fmt.Sprintf("FMA ceiling: %.0f GFLOP/s (%v, %s, measured before and after).",
		r.FMAGFLOPSAll, c.tier, text.Plural(runtime.GOMAXPROCS(0), "thread"))}
	if r.Share > 0 {
		lines[0] += fmt.Sprintf(" The ranking reached %.1f%% of it.", 100*r.Share)
		if r.Screen != rank.Float32Screen.String() {
			lines = append(lines, fmt.Sprintf(
				"The share can exceed 100%%: the %s stage is faster than float32 multiply-adds.", r.Screen))
		}
	}
	if c.compare != kernel.Dot {
		const format = "Ceiling of comparison %v in float32: %.1f·10⁹ terms/s. The ranking reached %.1f%% of it."
		lines = append(lines, fmt.Sprintf(format, c.compare, r.GtermsAll, 100*r.ComparisonShare))
	}
	for i, line := range lines {
		lines[i] = text.Wrap(line)
	}
	_, err := fmt.Fprintln(w, "\n"+strings.Join(lines, "\n"))
	return err
}
