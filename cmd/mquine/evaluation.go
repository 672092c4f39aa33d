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
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
)

// evaluation ranks a checkpoint and reports the metrics. It holds the flags of eval.
type evaluation struct {
	inputs
	compute
	setup
	restriction
	negatives negatives
	sample    sample
	printed
	tableFlags
	gpus     gpus
	protocol string
	// fixed is the protocol with the name protocol, or the zero value for fullProtocol.
	fixed     metrics.Protocol
	filters   []rank.Filter
	screen    rank.Screen
	peak      bool
	allTies   bool
	ranksFile string
	// start is the time at which the process began.
	start time.Time
}

// newEvaluation returns the defaults: both sides of the test split under all filters, with
// realistic ties.
func newEvaluation(start time.Time) *evaluation {
	e := &evaluation{
		setup: newSetup(), printed: printed{diverted: true}, protocol: fullProtocol,
		filters: []rank.Filter{rank.None, rank.Train, rank.All}, start: start,
	}
	e.compute.setDefaults()
	return e
}

// run ranks the checkpoint and writes the output files, then the tables. The tables go to stdout,
// or to log if a file goes to stdout. Progress and notes go to log.
func (e *evaluation) run(ctx context.Context, stdout, log io.Writer) (err error) {
	if err := e.checkProcessor(); err != nil {
		return err
	}
	s, err := openSession(ctx, log, e.inputs, e.compute, e.gpus)
	if err != nil {
		return err
	}
	defer s.close()
	defer func() { err = s.explain(ctx, err) }()
	t, err := e.load(ctx, s)
	if err != nil {
		return err
	}
	loaded := time.Since(s.loading)

	options := s.options
	options.Sides, options.Screen, options.Tolerances, options.Among =
		e.sides.List(), e.screen, e.fixed.Tolerances(), t.among
	if err := e.ensemble.fit(ctx, log, s.meter, s.subject, s.index, options); err != nil {
		return err
	}
	if e.ensemble.word == fittedWeights && e.split == kg.Valid {
		printNote(log, fittedToSplit)
	}
	if err := e.sample.draw(ctx, e, t); err != nil {
		return err
	}
	if options.Negatives = t.negatives; t.drawn != nil {
		options.Among = nil // the sample is drawn from these candidates
	}
	r, err := e.rank(ctx, t, options)
	if err != nil {
		return err
	}
	conclude(log, t, r.Stats)
	report, err := e.report(ctx, t, r)
	if err != nil {
		return err
	}
	report.Timing.Load = loaded.Seconds()

	// Ranking takes a long time, so print the tables even if a file cannot be written.
	err = e.writeFiles(ctx, stdout, t, e.fixed.Ranks(r.Ranking), report)
	out := stdout
	if e.jsonFile == "-" || e.ranksFile == "-" {
		out = log
	}
	return errors.Join(err, unprinted(e.print(out, report, r.peak)))
}

// checkProcessor refuses flags that apply only to the processor if other flags select GPUs.
func (e *evaluation) checkProcessor() error {
	switch {
	case e.backend != cudaBackend && len(e.gpus.indices) == 0:
		return nil
	case e.peak:
		return errors.New("--peak measures the processor: leave it out, or do not use GPUs")
	case e.screen != rank.AutoScreen:
		return fmt.Errorf("--screen %s applies to the processor: leave it out, or do not use GPUs", e.screen)
	}
	return nil
}

// optionalFlag is a flag, or several with one purpose, and whether it is given.
type optionalFlag struct {
	given bool
	name  string
}

// firstGiven returns the name of the first flag that is given, or "".
func firstGiven(flags ...optionalFlag) string {
	for _, f := range flags {
		if f.given {
			return f.name
		}
	}
	return ""
}

// screenFlags returns the flags of rankings with screens. Rankings that compute only exact scores refuse
// them.
func (e *evaluation) screenFlags() []optionalFlag {
	return []optionalFlag{
		{e.backend == cudaBackend, "--backend cuda"}, {len(e.gpus.indices) > 0, "--devices"}, {e.peak, "--peak"},
		{e.screen != rank.AutoScreen, "--screen"},
	}
}

// task holds the inputs of an evaluation.
type task struct {
	*session
	triples []kg.Triple
	keys    []metrics.Key
	// among holds the candidates, or is nil if they are all entities. negatives holds separate
	// candidates for every query, or is nil. restrictions describes among or negatives.
	among        *rank.Candidates
	negatives    *rank.Negatives
	drawn        *rank.Sample // nil without --sample; otherwise it contains negatives
	restrictions *metrics.Restrictions
	labels       map[string]string // the labels of opaque identifiers; nil if the data set has none
	dataSHA256   string            // checksum of the triples; empty if no report needs it
}

// load reads the other inputs of an evaluation, and checks all of them.
func (e *evaluation) load(ctx context.Context, s *session) (t *task, err error) {
	t = &task{session: s}
	if t.triples, err = triplesToRank(s.graph, e.split, e.filters...); err != nil {
		return nil, err
	}
	if t.among, t.restrictions, err = e.restriction.load(ctx, s.subject, s.log); err != nil {
		return nil, err
	}
	if e.negatives.given() {
		t.negatives, t.restrictions, err = e.negatives.load(ctx, s.graph, t.triples, e.wantsJSON())
		if err != nil {
			return nil, err
		}
	}
	if err := e.checkTargets(s.log, t); err != nil {
		return nil, err
	}
	if t.labels, err = kg.ReadLabels(ctx, s.graph.Dir); err != nil {
		return nil, err
	}
	m := t.model
	if compare := m.Tower(kg.Tail).Compare; !e.screen.Fits(compare) {
		kinds := map[rank.Screen]string{
			rank.Float32Screen: "dot products, L1 distances, group norms and phases",
			rank.Int8Screen:    "dot products, L1 distances and phases",
			rank.Int16Screen:   "dot products and group norms",
		}[e.screen]
		return nil, fmt.Errorf("--screen %s is for %s, but model %s uses comparison %s: leave out --screen",
			e.screen, kinds, m.Config().Model, compare)
	}
	if err := t.prepare(ctx, e.wantsJSON()); err != nil {
		return nil, err
	}
	t.keys, err = e.keys(ctx, s.graph, t.index, t.triples, e.threads)
	return t, err
}

// prepare builds the index of known answers. If checksum is set, prepare computes the checksums at
// the same time.
func (t *task) prepare(ctx context.Context, checksum bool) (err error) {
	var (
		hashing sync.WaitGroup
		hashErr error
	)
	if checksum {
		hashing.Go(func() {
			if hashErr = t.digest(ctx); hashErr == nil {
				t.dataSHA256, hashErr = t.graph.SHA256(ctx)
			}
		})
	}
	t.index, err = t.buildIndex(ctx)
	hashing.Wait()
	return cmp.Or(err, hashErr)
}

// ranked is a ranking with the options that produced it.
type ranked struct {
	*rank.Ranking
	options rank.Options
	peak    *peakRates // nil without --peak
}

// rank ranks the triples of the task. It returns an error if the checkpoint changed during the
// ranking.
func (e *evaluation) rank(ctx context.Context, t *task, options rank.Options) (*ranked, error) {
	m := t.model
	options.Progress = t.meter.ranking
	if e.sides == rank.RelationSide {
		return e.rankRelations(ctx, t, options)
	}
	options, err := rank.Fit(ctx, m, len(t.triples), options)
	if err != nil {
		return nil, err
	}
	e.announce(t.log, t, options)
	var c *peakRates
	if e.peak {
		c = &peakRates{compare: m.Tower(options.Sides[0]).Compare}
	}
	if err := c.measure(); err != nil {
		return nil, err
	}
	ranking, err := rank.Run(ctx, m, t.index, t.triples, options)
	t.meter.clear()
	if err != nil {
		return nil, err
	}
	if err := t.verify(ctx); err != nil {
		return nil, err
	}
	if t.drawn != nil {
		if err := t.drawn.Scale(ranking.Ranks); err != nil {
			return nil, err
		}
	}
	t.leaveOut(ranking)
	return &ranked{ranking, options, c}, c.measure()
}

// rankRelations does the work of rank for --side relation.
func (e *evaluation) rankRelations(ctx context.Context, t *task, options rank.Options) (*ranked, error) {
	t.writeNotes(t.log)
	t.noteRelations(t.log)
	printLine(details(t.log), "ranking %s of %s among %s", text.Plural(len(t.triples), "relation"), t.graph.Name,
		text.Plural(e.candidates(t), "candidate"))
	ranking, err := rank.Relations(ctx, t.model, t.index, t.triples, options)
	t.meter.clear()
	if err != nil {
		return nil, err
	}
	if err := t.verify(ctx); err != nil {
		return nil, err
	}
	return &ranked{Ranking: ranking, options: options}, nil
}

// candidates returns the number of candidates of a query before any restriction or filter.
func (e *evaluation) candidates(t *task) int {
	if e.sides == rank.RelationSide {
		return t.model.Config().Relations
	}
	return t.model.Config().Entities
}

// report computes the metrics and describes the ranking.
func (e *evaluation) report(ctx context.Context, t *task, r *ranked) (*metrics.Report, error) {
	report := &metrics.Report{
		Provenance: computedOn(ctx, r.options.Backend.Tier.String(), e.threads, r.Stats.Engine),
		Split:      e.split.String(), Candidates: e.candidates(t), Restrictions: t.restrictions, Protocol: fullProtocol,
	}
	if e.sides == rank.RelationSide {
		report.Protocol = metrics.RelationProtocol
	}
	report.Provenance.Checkpoint = t.described()
	report.Provenance.Data = describedData(t.graph, t.dataSHA256)
	report.SetStats(r.Stats)
	if r.peak != nil {
		r.peak.report(report, t.model.Tower(r.options.Sides[0]), r.Stats.Pairs)
	}
	ranks := e.fixed.Ranks(r.Ranking)
	err := report.Summarize(ctx, ranks, metrics.SummaryOptions{
		Sides: e.sides, Filters: e.filters, Ties: e.reported(), Hits: e.hits, Keys: t.keys, CIBy: e.ciBy,
		Threads: e.threads,
	})
	if err != nil {
		return nil, err
	}
	if t.negatives == nil {
		limits, err := metrics.Limits(ctx, t.index, t.triples, t.among, e.sides, e.filters, nil)
		if err != nil {
			return nil, err
		}
		report.SetLimits(limits)
	}
	if t.drawn != nil {
		report.SetEstimate(ranks)
	}
	report.SetExtremes(t.graph, ranks, e.filters[len(e.filters)-1], e.ties)
	report.AddLabels(t.labels)
	if e.named() {
		e.fixed.Other = t.otherScores(e.protocol)
		e.fixed.Apply(report, r.Ranking)
	}
	return report, nil
}

// reported returns the tie rules of the report. The rule that the tables use comes last.
func (e *evaluation) reported() []rank.Ties {
	var rules []rank.Ties
	for t := range rank.NumTies {
		if e.allTies && t != e.ties {
			rules = append(rules, t)
		}
	}
	return append(rules, e.ties)
}

// writeFiles writes the files that --ranks and --json name.
func (e *evaluation) writeFiles(
	ctx context.Context, stdout io.Writer, t *task, ranks []rank.Rank, report *metrics.Report,
) (err error) {
	if e.ranksFile != "" {
		err = phase(ctx, "write", func(context.Context) error {
			t.identifyCandidates(ranks)
			return writeTo(ctx, stdout, e.ranksFile, func(w io.Writer) error {
				return metrics.WriteRanks(w, t.graph, metrics.RanksFile{
					Ranks: ranks, Filters: e.filters, Restricted: t.restrictions != nil, Tolerance: e.fixed.Tolerance,
				})
			})
		})
	}
	report.PeakRSSBytes = proc.PeakRSS()
	report.Timing.Total = time.Since(e.start).Seconds()
	if e.jsonFile != "" {
		err = errors.Join(err, writeTo(ctx, stdout, e.jsonFile, report.WriteJSON))
	}
	return err
}

// announce prints notes about the data set and, as details, what the command is about to rank and
// with which resources.
func (e *evaluation) announce(log io.Writer, t *task, o rank.Options) {
	t.writeNotes(log)
	w := details(log)
	c := t.model.Config()
	printLine(w, "ranking %s (%s of %s, side %v) among %s", text.Plural(len(t.triples)*len(o.Sides), "query"),
		text.Plural(len(t.triples), e.split.String()+" triple"), t.graph.Name, e.sides,
		t.restrictions.Describe(e.sides, c.Entities))
	size, parts := rank.Memory(t.model, o)
	memory := humanize.IBytes(uint64(size)) + " of candidate features"
	if parts > 1 {
		memory += fmt.Sprintf(" at a time, in %d slices", parts)
	}
	memory += ", " + humanize.IBytes(uint64(t.graph.Bytes()+t.index.Bytes())) + " of graph and index"
	on := o.Backend.Tier.String()
	if o.Engine != nil {
		on = o.Engine.String()
	}
	printLine(w, "with %s, d = %d, on %s with %s", c.Model, c.Dim, on, text.Plural(o.Threads, "thread"))
	printLine(w, "memory: %s", memory)
}

// conclude prints how long the ranking took and, as details, its statistics.
func conclude(log io.Writer, t *task, s rank.Stats) {
	queries := s.Queries
	if t.restrictions != nil {
		queries -= t.restrictions.Excluded // they were ranked, too, but the tables leave them out
	}
	fmt.Fprintf(log, "ranked %s in %.2f s\n", text.Plural(queries, "query"), s.Rank.Seconds())
	if collapsed(s.Rescored.Float64, targetPairs(s)) {
		printNote(log, "%s", collapsedNote)
	}
	writeStatistics(details(log), s)
}

// targetPairs returns the number of pairs of a target and a candidate in a ranking of entities. With
// millions of both, an int64 cannot hold the product of Pairs and Queries.
func targetPairs(s rank.Stats) float64 {
	pairs := float64(s.Pairs)
	if s.Screen == rank.Float64Pairs { // among given negatives, Pairs counts by target
		return pairs
	}
	return pairs * float64(s.Queries) / float64(max(s.UniqueQueries, 1))
}

// writeStatistics prints how fast a ranking was, and how many pairs each stage left undecided.
func writeStatistics(w io.Writer, s rank.Stats) {
	fmt.Fprintf(w, "%s: %s\n", text.Plural(s.UniqueQueries, "distinct query"),
		pairRate(s.Pairs, s.Rank))
	if s.Screen == rank.OnlyReference {
		fmt.Fprintln(w, "all pairs have reference scores")
		return
	}
	fmt.Fprintf(w, "undecided: %s\n", undecidedPairs(s))
	if s.Engine != "" {
		return // GPUs do not measure the rest
	}
	fmt.Fprintf(w, "deciding them took %.1f%% of the time\n", 100*s.Decide.Seconds()/max(s.Rank.Seconds(), 1e-9))
	if s.Dropped > 0 {
		fmt.Fprintf(w, "early exit skipped %.1f%% of the terms\n", 100*s.Dropped)
	}
}

// undecidedPairs says how many pairs each stage of a ranking of entities left undecided.
func undecidedPairs(s rank.Stats) string {
	pairs := func(n int64) string { return text.Plural(int(n), "pair") }
	left := s.Rescored
	switch {
	case s.Screen == rank.Float64Pairs:
		return fmt.Sprintf("%s after float64", pairs(left.Reference))
	case left.Int8 > 0:
		return fmt.Sprintf("%s after int8, %s after fine codes, %s after float64",
			pairs(left.Int8), text.Comma(left.Float64), text.Comma(left.Reference))
	default:
		return fmt.Sprintf("%s after %s, %s after float64", pairs(left.Float64), s.Screen, text.Comma(left.Reference))
	}
}

// print prints the report in the format of --format.
func (e *evaluation) print(w io.Writer, r *metrics.Report, c *peakRates) error {
	people := e.format == text.FormatTable || e.format == text.FormatMarkdown
	if !people && e.format != text.FormatLaTeX {
		w = text.Exact(w)
	}
	if e.named() && people {
		if _, err := fmt.Fprintf(w, "%s\n\n", text.Wrap(fmt.Sprintf("Protocol %v", e.fixed))); err != nil {
			return err
		}
	}
	if err := r.Write(w, e.format, e.TableOptions); err != nil {
		return err
	}
	if !people {
		return nil
	}
	if r.Estimate != nil {
		if _, err := fmt.Fprintf(w, "\n%s\n", r.Estimate.Notes(r.Restrictions.Sample, e.TableOptions)); err != nil {
			return err
		}
	}
	for _, d := range r.Deviations {
		if _, err := fmt.Fprintf(w, "\n%s\n", e.fixed.Explain(d, r.Results[len(r.Results)-1].N)); err != nil {
			return err
		}
	}
	return c.print(w, r)
}
