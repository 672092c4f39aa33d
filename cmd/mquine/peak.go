package main

import (
	"fmt"
	"io"
	"runtime"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/ceiling"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
)

// peakTime is how long one measurement of a ceiling takes.
const peakTime = 300 * time.Millisecond

// peakRates holds measurements of the processor's rates, in operations and in terms of a comparison a second.
type peakRates struct {
	compare    kernel.Comparison
	tier       kernel.Tier
	fma, terms []float64
}

// measure adds a measurement of the best tier; nil peakRates, which nobody asked for, stays nil.
func (c *peakRates) measure() error {
	if c == nil {
		return nil
	}
	backends, err := kernel.Available()
	if err != nil {
		return err
	}
	b := backends[0]
	c.tier = b.Tier
	c.fma = append(c.fma, 2*ceiling.Terms(b, kernel.Dot).Rate(runtime.GOMAXPROCS(0), peakTime))
	c.terms = append(c.terms, ceiling.Terms(b, c.compare).Rate(runtime.GOMAXPROCS(0), peakTime))
	return nil
}

// report fills in the ceilings and what a ranking with t reached of them.
func (c *peakRates) report(r *metrics.Report, t model.Tower) {
	if c == nil {
		return
	}
	gterms := float64(t.Phi) * float64(r.Candidates) * float64(r.UniqueQueries) / 1e9 / r.Timing.Rank
	r.FMAGFLOPSAll, r.GtermsAll = stat.Mean(c.fma, nil)/1e9, stat.Mean(c.terms, nil)/1e9
	r.Share = c.compare.PortOperations() * gterms / r.FMAGFLOPSAll
	r.ComparisonShare = gterms / r.GtermsAll
}

// print writes the ceilings and what the ranking reached of them.
func (c *peakRates) print(w io.Writer, r *metrics.Report) error {
	if c == nil {
		return nil
	}
	line := fmt.Sprintf("\nFMA ceiling: %.0f GFLOP/s (%v, all %s; measured before and after).",
		r.FMAGFLOPSAll, c.tier, text.Plural(runtime.GOMAXPROCS(0), "core"))
	if r.Share > 0 {
		line += fmt.Sprintf(" The ranking reached %.1f%% of it", 100*r.Share)
		if r.Screen != rank.Float32Screen.String() {
			line += ", with a first stage in bytes, which are faster than multiply-adds"
		}
		line += "."
	}
	if c.compare != kernel.Dot {
		line += fmt.Sprintf("\nCeiling of the comparison %v: %.1f·10⁹ terms/s (its operations on registers alone). "+
			"The ranking reached %.1f%% of it.", c.compare, r.GtermsAll, 100*r.ComparisonShare)
	}
	_, err := fmt.Fprintln(w, line)
	return err
}
