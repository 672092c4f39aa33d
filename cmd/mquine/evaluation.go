package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/klauspost/cpuid/v2"
	"gonum.org/v1/gonum/stat"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/zpattern"
	"github.com/mquine/mquine/rank"
)

// evaluation is a ranking of a checkpoint as the user asks for it, from the files to the tables.
type evaluation struct {
	inputs
	compute
	gpus     gpus
	protocol protocol
	split    kg.Split
	sides    rank.Sides
	filters  []rank.Filter
	ties     rank.Ties
	hits     []int
	by       []string
	ciBy     rank.Clustering
	// convention is that of groups by z-case.
	convention zpattern.Convention
	screen     rank.Screen
	peak       bool
	jsonFile   string
	ranksFile  string
	// start is when the process began.
	start time.Time
}

// newEvaluation returns the main protocol: filtered and raw ranks of the test split on both sides,
// realistic ties.
func newEvaluation(start time.Time) *evaluation {
	e := &evaluation{
		protocol: fullProtocol, split: kg.Test, sides: rank.BothSides, filters: []rank.Filter{rank.None, rank.Train, rank.All},
		ties: rank.Realistic, hits: []int{1, 3, 10}, ciBy: rank.ByQuery, start: start,
	}
	e.compute.setDefaults()
	return e
}

// run ranks and reports: the files that were asked for, then the tables to stdout, or to log where a file goes to
// stdout; all else to log.
func (e *evaluation) run(ctx context.Context, stdout, log io.Writer) error {
	backend, err := e.compute.resolve()
	if err != nil {
		return err
	}
	var devices []*cuda.Device
	asked := e.backend == cudaBackend || len(e.gpus.indices) > 0
	switch {
	case e.screen == rank.AutoScreen && !e.peak:
		if devices, err = e.gpus.open(e.compute, log); err != nil {
			return err
		}
		defer closeDevices(devices)
	case asked && e.peak:
		return errors.New("--peak measures the processor, and GPUs have ceilings of their own: leave it out, or set --backend to an instruction set")
	case asked:
		return fmt.Errorf("--screen %s is for the processor, and GPUs have screens of their own: leave it out, or set --backend to an instruction set", e.screen)
	}
	loading := time.Now()
	s, err := e.inputs.open(ctx, log)
	if err != nil {
		return err
	}
	defer s.close()
	triples, err := triplesToRank(s.graph, e.split, e.filters)
	if err != nil {
		return err
	}
	keys, err := rank.NewKeys(ctx, s.graph, e.by, rank.KeyOptions{
		Triples: triples, Sides: e.sides, Convention: e.convention, Threads: e.threads,
	})
	if err != nil {
		return err
	}
	m := s.checkpoint.Model
	if compare := m.Tower(kg.Tail).Compare; !e.screen.Fits(compare) {
		return fmt.Errorf("--screen %s is for dot products, and %s compares by %s: leave it out", e.screen, m.Config().Model, compare)
	}
	report := &rank.Report{
		Data: s.graph.Name, Split: e.split.String(), Candidates: m.Config().Entities, Protocol: string(e.protocol),
		CIBy: e.ciBy, Model: m.Config().Model, Dim: m.Config().Dim,
		Tier: backend.Tier.String(), Threads: e.threads, Machine: machine(),
	}
	if slices.Contains(e.by, "z-case") {
		report.ZConvention = e.convention.String()
	}
	var (
		hashing sync.WaitGroup
		hashErr error
	)
	if e.jsonFile != "" {
		hashing.Go(func() { report.CheckpointSHA256, hashErr = s.checkpoint.SHA256(ctx) })
	}
	var index *kg.Index
	if err := phase(ctx, "index", func(context.Context) error { index = kg.NewIndex(s.graph); return nil }); err != nil {
		return err
	}
	if hashing.Wait(); hashErr != nil {
		return hashErr
	}
	report.Timing.Load = time.Since(loading).Seconds()

	meter := newMeter(log)
	options := rank.Options{Sides: e.sides.List(), Backend: backend, Devices: devices, Threads: e.threads, Screen: e.screen, Progress: meter.ranking}
	if err := e.orProcessor(ctx, rank.CheckDevices(ctx, m, options), &options, log); err != nil {
		return err
	}
	if options, err = rank.Fit(m, len(triples), options); err != nil {
		return err
	}
	e.announce(log, s, index, len(triples), options)
	var ceiling ceiling
	tower := m.Tower(options.Sides[0])
	if err := e.measure(&ceiling, tower.Compare); err != nil {
		return err
	}
	ranking, err := rank.Run(ctx, m, index, triples, options)
	if err != nil && len(options.Devices) > 0 {
		meter.clear()
		if err = e.orProcessor(ctx, err, &options, log); err == nil {
			ranking, err = rank.Run(ctx, m, index, triples, options)
		}
	}
	meter.clear()
	if err != nil {
		return err
	}
	if err := s.verify(ctx); err != nil {
		return err
	}
	if err := e.measure(&ceiling, tower.Compare); err != nil {
		return err
	}
	stats := ranking.Stats
	if len(options.Devices) > 0 {
		report.Tier, report.Machine = cudaBackend, report.Machine+", "+deviceNames(options.Devices)
	}
	conclude(log, stats, report.Candidates)
	report.Queries, report.UniqueQueries, report.Rescored = stats.Queries, stats.UniqueQueries, stats.Rescored
	report.Dropped, report.Screen = stats.Dropped, stats.Screen.String()
	report.Timing.Pack, report.Timing.Rank, report.Timing.Decide = stats.Pack.Seconds(), stats.Rank.Seconds(), stats.Decide.Seconds()
	if e.peak {
		gterms := float64(tower.Width) * float64(report.Candidates) * float64(report.UniqueQueries) / 1e9 / report.Timing.Rank
		report.FMAGFLOPSAll, report.GtermsAll = mean(ceiling.fma)/1e9, mean(ceiling.terms)/1e9
		report.Share = tower.Compare.PortOperations() * gterms / report.FMAGFLOPSAll
		report.ComparisonShare = gterms / report.GtermsAll
	}
	report.Results, report.Groups, err = rank.Summarize(ctx, ranking.Ranks, rank.SummaryOptions{
		Sides: e.sides, Filters: e.filters, Hits: e.hits, Keys: keys, CIBy: e.ciBy, Threads: e.threads,
	})
	if err != nil {
		return err
	}
	e.protocol.keep(report)

	// What took long to compute is written even if the table cannot be printed, and printed even if a file cannot
	// be written.
	if e.ranksFile != "" {
		err = phase(ctx, "write", func(context.Context) error {
			return writeTo(stdout, e.ranksFile, func(w io.Writer) error {
				return rank.WriteRanks(w, s.graph, e.filters, ranking.Ranks)
			})
		})
	}
	if e.jsonFile != "" {
		report.PeakRSSBytes = proc.PeakRSS()
		report.Timing.Total = time.Since(e.start).Seconds()
		err = errors.Join(err, writeTo(stdout, e.jsonFile, report.WriteJSON))
	}
	out := stdout
	if e.jsonFile == "-" || e.ranksFile == "-" {
		out = log
	}
	return errors.Join(err, e.print(out, report, tower.Compare, ceiling.tier))
}

// triplesToRank returns the triples of a split. A filter whose splits are not all there is an error,
// because what remains of it would be another filter.
func triplesToRank(g *kg.Graph, split kg.Split, filters []rank.Filter) ([]kg.Triple, error) {
	triples, err := g.Triples(split)
	if err != nil {
		return nil, err
	}
	for _, f := range filters {
		for s := range kg.NumSplits {
			if f.Splits().Has(s) && !g.Has(s) {
				return nil, fmt.Errorf("filter %v leaves out what the %v split knows, and data set %s has no %[2]v split: put %[2]v.txt into %[4]s, or choose other filters",
					f, s, g.Name, g.Dir)
			}
		}
	}
	return triples, nil
}

// announce says what will be done.
func (e *evaluation) announce(w io.Writer, s *subject, x *kg.Index, triples int, o rank.Options) {
	s.writeNotes(w)
	c := s.checkpoint.Model.Config()
	printLine(w, "ranking %s (%s of %s, side %v) among %s", plural(triples*len(o.Sides), "query"),
		plural(triples, e.split.String()+" triple"), s.graph.Name, e.sides, plural(c.Entities, "candidate"))
	bytes, slices := rank.Memory(s.checkpoint.Model, o)
	memory := humanize.IBytes(uint64(bytes)) + " of candidate features"
	if slices > 1 {
		memory += fmt.Sprintf(" at a time, in %d slices", slices)
	}
	memory += ", " + humanize.IBytes(uint64(s.graph.Bytes()+x.Bytes())) + " of graph and index"
	on := o.Backend.Tier.String()
	if len(o.Devices) > 0 {
		on = deviceNames(o.Devices)
	}
	printLine(w, "with %s, d = %d, on %s with %s: %s", c.Model, c.Dim, on, plural(o.Threads, "thread"), memory)
}

// conclude says what was done.
func conclude(w io.Writer, s rank.Stats, candidates int) {
	pairs := int64(s.UniqueQueries) * int64(candidates)
	stages := s.Screen.String()
	if s.Rescored.Int8 > 0 {
		stages = fmt.Sprintf("int8 left %s to pairs of bytes, which", plural(int(s.Rescored.Int8), "pair"))
	}
	fmt.Fprintf(w, "ranked in %s: %s, %s; %s left %s to float64, which left %s to the reference, in %.1f%% of the time\n",
		s.Rank.Round(time.Millisecond), plural(s.UniqueQueries, "distinct query"), pairRate(pairs, s.Rank), stages,
		plural(int(s.Rescored.Float64), "pair"), comma(int(s.Rescored.Reference)), 100*s.Decide.Seconds()/max(s.Rank.Seconds(), 1e-9))
	if s.Dropped > 0 {
		fmt.Fprintf(w, "early exit passed over %.1f%% of the terms\n", 100*s.Dropped)
	}
	if collapsed(s.Rescored.Float64, int64(s.Queries)*int64(candidates)) {
		fmt.Fprintf(w, "note: %s\n", collapsedNote)
	}
}

// print writes the tables, and what the ranking reached of the ceilings of comparison c.
func (e *evaluation) print(w io.Writer, r *rank.Report, c kernel.Comparison, tier kernel.Tier) error {
	if err := e.protocol.announce(w); err != nil {
		return fmt.Errorf("cannot print the table: %w", reason(err))
	}
	if err := r.WriteTable(w, e.ties); err != nil {
		return fmt.Errorf("cannot print the table: %w", reason(err))
	}
	if len(r.Groups) > 0 {
		if err := r.WriteGroups(w, e.ties); err != nil {
			return fmt.Errorf("cannot print the groups: %w", reason(err))
		}
	}
	if !e.peak {
		return nil
	}
	where := fmt.Sprintf("%v, all %s; measured before and after", tier, plural(runtime.GOMAXPROCS(0), "core"))
	text := fmt.Sprintf("\nFMA ceiling: %.0f GFLOP/s (%s).", r.FMAGFLOPSAll, where)
	if r.Share > 0 {
		text += fmt.Sprintf(" The ranking reached %.1f%% of it", 100*r.Share)
		if r.Screen != rank.Float32Screen.String() {
			text += ", with a first stage in bytes, which are faster than multiply-adds"
		}
		text += "."
	}
	if c != kernel.Dot {
		text += fmt.Sprintf("\nCeiling of the comparison %v: %.1f·10⁹ terms/s (its operations on registers alone). The ranking reached %.1f%% of it.",
			c, r.GtermsAll, 100*r.ComparisonShare)
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// ceiling holds measurements of the processor's rates, in operations and in terms a second.
type ceiling struct {
	tier       kernel.Tier
	fma, terms []float64
}

// peakTime is how long one measurement of a ceiling takes.
const peakTime = 300 * time.Millisecond

// measure adds a measurement of the best tier to c, if the user asks for it.
func (e *evaluation) measure(to *ceiling, c kernel.Comparison) error {
	if !e.peak {
		return nil
	}
	backends, err := kernel.Available()
	if err != nil {
		return err
	}
	b := backends[0]
	to.tier = b.Tier
	to.fma = append(to.fma, 2*b.Terms(kernel.Dot).Rate(runtime.GOMAXPROCS(0), peakTime))
	to.terms = append(to.terms, b.Terms(c).Rate(runtime.GOMAXPROCS(0), peakTime))
	return nil
}

func mean(x []float64) float64 { return stat.Mean(x, nil) }

// machine names the processor.
func machine() string {
	if name := strings.TrimSpace(cpuid.CPU.BrandName); name != "" {
		return name
	}
	return "unknown " + runtime.GOARCH + " processor"
}

// plural writes a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if stem, ok := strings.CutSuffix(thing, "y"); ok {
		return comma(n) + " " + stem + "ies"
	}
	return comma(n) + " " + thing + "s"
}
