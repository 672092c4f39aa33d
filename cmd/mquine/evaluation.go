package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/zpattern"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
)

// evaluation is a ranking of a checkpoint as the user asks for it, from the files to the tables.
type evaluation struct {
	inputs
	compute
	gpus     gpus
	protocol string
	// fixed is the protocol, unless it is fullProtocol.
	fixed   *metrics.Protocol
	split   kg.Split
	sides   rank.Sides
	filters []rank.Filter
	ties    rank.Ties
	hits    []int
	by      []string
	ciBy    metrics.Clustering
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
		protocol: fullProtocol, split: kg.Test, sides: rank.BothSides,
		filters: []rank.Filter{rank.None, rank.Train, rank.All}, ties: rank.Realistic,
		hits: []int{1, 3, 10}, ciBy: metrics.ByQuery, start: start,
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
	meter := newMeter(log)
	engine, closeEngine, err := e.openEngine(log, meter)
	if err != nil {
		return err
	}
	defer closeEngine()

	loading := time.Now()
	t, err := e.load(ctx, log)
	if err != nil {
		return err
	}
	defer t.close()
	loaded := time.Since(loading)

	r, err := e.rank(ctx, log, meter, t, rank.Options{
		Sides: e.sides.List(), Backend: backend, Engine: engine, Threads: e.threads, Screen: e.screen,
	})
	if err != nil {
		return err
	}
	conclude(log, r.Stats, t.checkpoint.Model.Config().Entities)
	report, err := e.report(ctx, t, r)
	if err != nil {
		return err
	}
	report.Timing.Load = loaded.Seconds()

	// What took long to compute is written even if the table cannot be printed, and printed even if a file cannot
	// be written.
	err = e.writeFiles(ctx, stdout, t.graph, r.Ranks, report)
	out := stdout
	if e.jsonFile == "-" || e.ranksFile == "-" {
		out = log
	}
	return errors.Join(err, e.print(out, report, r.peak))
}

// openEngine opens the GPUs to compute with, which have neither the screens nor the ceilings of the processor.
func (e *evaluation) openEngine(log io.Writer, meter *meter) (engine rank.Engine, close func(), err error) {
	if e.backend == cudaBackend || len(e.gpus.indices) > 0 {
		switch {
		case e.peak:
			return nil, nil, errors.New("--peak measures the processor, and GPUs have ceilings of their own: " +
				"leave it out, or leave out the GPUs")
		case e.screen != rank.AutoScreen:
			return nil, nil, fmt.Errorf("--screen %s is for the processor, and GPUs have screens of their own: "+
				"leave it out, or leave out the GPUs", e.screen)
		}
	}
	return e.gpus.open(e.compute, log, meter)
}

// task is what an evaluation ranks.
type task struct {
	*subject
	triples []kg.Triple
	keys    []metrics.Key
	index   *kg.Index
	// sha256 is the checksum of the checkpoint's parameters, if a report needs it.
	sha256 string
}

// load reads and checks what is to be ranked; the caller closes the task.
func (e *evaluation) load(ctx context.Context, log io.Writer) (_ *task, err error) {
	s, err := e.inputs.open(ctx, log)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	t := &task{subject: s}
	if t.triples, err = triplesToRank(s.graph, e.split, e.filters...); err != nil {
		return nil, err
	}
	t.keys, err = metrics.NewKeys(ctx, s.graph, e.by, metrics.KeyOptions{
		Triples: t.triples, Sides: e.sides, Convention: e.convention, Threads: e.threads,
	})
	if err != nil {
		return nil, err
	}
	m := s.checkpoint.Model
	if compare := m.Tower(kg.Tail).Compare; !e.screen.Fits(compare) {
		return nil, fmt.Errorf("--screen %s is for dot products, and %s compares by %s: leave it out",
			e.screen, m.Config().Model, compare)
	}
	return t, t.prepare(ctx, e.jsonFile != "")
}

// prepare makes the index of known answers and, at the same time, the checksum.
func (t *task) prepare(ctx context.Context, checksum bool) error {
	var (
		hashing sync.WaitGroup
		hashErr error
	)
	if checksum {
		hashing.Go(func() { t.sha256, hashErr = t.checkpoint.SHA256(ctx) })
	}
	err := phase(ctx, "index", func(context.Context) error { t.index = kg.NewIndex(t.graph); return nil })
	hashing.Wait()
	return cmp.Or(err, hashErr)
}

// ranked is the outcome of a ranking, and what computed it.
type ranked struct {
	*rank.Ranking
	options rank.Options
	peak    *peakRates // nil if it was not asked for
}

// rank ranks and checks that the checkpoint did not change meanwhile.
func (e *evaluation) rank(
	ctx context.Context, log io.Writer, meter *meter, t *task, options rank.Options,
) (*ranked, error) {
	m := t.checkpoint.Model
	options.Progress = meter.ranking
	options, err := rank.Fit(ctx, m, len(t.triples), options)
	if err != nil {
		return nil, err
	}
	e.announce(log, t, options)
	var c *peakRates
	if e.peak {
		c = &peakRates{compare: m.Tower(options.Sides[0]).Compare}
	}
	if err := c.measure(); err != nil {
		return nil, err
	}
	ranking, err := rank.Run(ctx, m, t.index, t.triples, options)
	meter.clear()
	if err != nil {
		return nil, err
	}
	if err := t.verify(ctx); err != nil {
		return nil, err
	}
	return &ranked{ranking, options, c}, c.measure()
}

// report measures the ranks and says what was ranked, and how.
func (e *evaluation) report(ctx context.Context, t *task, r *ranked) (*metrics.Report, error) {
	c := t.checkpoint.Model.Config()
	report := &metrics.Report{
		Data: t.graph.Name, Split: e.split.String(), Candidates: c.Entities, Protocol: fullProtocol,
		Model: c.Model, Dim: c.Dim, CheckpointSHA256: t.sha256,
		Tier: r.options.Backend.Tier.String(), Threads: e.threads, Machine: machine(),
	}
	if r.Stats.Engine != "" {
		report.Tier, report.Machine = cudaBackend, report.Machine+", "+r.Stats.Engine
	}
	report.SetStats(r.Stats)
	r.peak.report(report, t.checkpoint.Model.Tower(r.options.Sides[0]))
	err := report.Summarize(ctx, r.Ranks, metrics.SummaryOptions{
		Sides: e.sides, Filters: e.filters, Hits: e.hits, Keys: t.keys, CIBy: e.ciBy, Threads: e.threads,
	})
	if err != nil {
		return nil, err
	}
	if e.fixed != nil {
		e.fixed.Apply(report)
	}
	return report, nil
}

// writeFiles writes the files that were asked for.
func (e *evaluation) writeFiles(
	ctx context.Context, stdout io.Writer, g *kg.Graph, ranks []rank.Rank, report *metrics.Report,
) (err error) {
	if e.ranksFile != "" {
		err = phase(ctx, "write", func(context.Context) error {
			return writeTo(stdout, e.ranksFile, func(w io.Writer) error {
				return metrics.WriteRanks(w, g, e.filters, ranks)
			})
		})
	}
	if e.jsonFile != "" {
		report.PeakRSSBytes = proc.PeakRSS()
		report.Timing.Total = time.Since(e.start).Seconds()
		err = errors.Join(err, writeTo(stdout, e.jsonFile, report.WriteJSON))
	}
	return err
}

// announce says what will be done.
func (e *evaluation) announce(w io.Writer, t *task, o rank.Options) {
	t.writeNotes(w)
	c := t.checkpoint.Model.Config()
	printLine(w, "ranking %s (%s of %s, side %v) among %s", text.Plural(len(t.triples)*len(o.Sides), "query"),
		text.Plural(len(t.triples), e.split.String()+" triple"), t.graph.Name, e.sides, text.Plural(c.Entities, "candidate"))
	bytes, slices := rank.Memory(t.checkpoint.Model, o)
	memory := humanize.IBytes(uint64(bytes)) + " of candidate features"
	if slices > 1 {
		memory += fmt.Sprintf(" at a time, in %d slices", slices)
	}
	memory += ", " + humanize.IBytes(uint64(t.graph.Bytes()+t.index.Bytes())) + " of graph and index"
	on := o.Backend.Tier.String()
	if o.Engine != nil {
		on = o.Engine.String()
	}
	printLine(w, "with %s, d = %d, on %s with %s: %s", c.Model, c.Dim, on, text.Plural(o.Threads, "thread"), memory)
}

// conclude says what was done.
func conclude(w io.Writer, s rank.Stats, candidates int) {
	pairs := int64(s.UniqueQueries) * int64(candidates)
	stages := s.Screen.String()
	if s.Rescored.Int8 > 0 {
		stages = fmt.Sprintf("int8 left %s to pairs of bytes, which", text.Plural(int(s.Rescored.Int8), "pair"))
	}
	fmt.Fprintf(w, "ranked in %s: %s, %s; %s left %s to float64, which left %s to the reference, in %.1f%% of the time\n",
		s.Rank.Round(time.Millisecond), text.Plural(s.UniqueQueries, "distinct query"), pairRate(pairs, s.Rank), stages,
		text.Plural(int(s.Rescored.Float64), "pair"), text.Comma(s.Rescored.Reference),
		100*s.Decide.Seconds()/max(s.Rank.Seconds(), 1e-9))
	if s.Dropped > 0 {
		fmt.Fprintf(w, "early exit passed over %.1f%% of the terms\n", 100*s.Dropped)
	}
	if collapsed(s.Rescored.Float64, int64(s.Queries)*int64(candidates)) {
		fmt.Fprintf(w, "note: %s\n", collapsedNote)
	}
}

// print writes the tables.
func (e *evaluation) print(w io.Writer, r *metrics.Report, c *peakRates) error {
	if e.fixed != nil {
		if _, err := fmt.Fprintf(w, "Protocol %v\n", e.fixed); err != nil {
			return fmt.Errorf("cannot print the table: %w", text.Cause(err))
		}
	}
	if err := r.WriteTable(w, e.ties); err != nil {
		return fmt.Errorf("cannot print the table: %w", text.Cause(err))
	}
	if len(r.Groups) > 0 {
		if err := r.WriteGroups(w, e.ties); err != nil {
			return fmt.Errorf("cannot print the groups: %w", text.Cause(err))
		}
	}
	return c.print(w, r)
}
