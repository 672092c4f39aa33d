package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics/classify"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
)

func newScoreCommand() *cobra.Command {
	s := &scoring{filter: rank.All, ties: rank.Realistic}
	cmd := &cobra.Command{
		Use:   "score CKPT... --in FILE",
		Short: "Score given triples",
		Long: `Print the model's score of every triple in a file, or of one triple.

The score says how plausible the model finds the triple. Higher is better, for
distances too: they are negated or subtracted from a margin. The scale depends
on the model ("mquine predict --help" lists the formulas).

--in reads triples from a file, or from standard input if the file is "-". Each
line has a head, a relation and a tail, separated by tabs. --head, --relation
and --tail give one triple. Use the labels in the checkpoint.

Models with reciprocal relations, and some others, score a triple differently as
an answer to (h, r, ?) and to (?, r, t). --side selects one of these scores, or
the mean of the two (both); the default is tail.

With --data, the column "known" names the splits that contain the triple, such
as train or valid+test, or is "unknown". If the data set lacks one of the three
splits, tables show "?" for triples that the other splits do not have, and the
other formats leave the column empty. --ranks adds the ranks of the tail and of
the head among all entities, exactly as "mquine eval" would rank them under
--filter and --ties. The triple need not be in the data set. If the data set has
labels, tables show them, and the other formats have the columns head_label,
relation_label and tail_label.

--calibration adds the probability that the triple is true, from a file that
"mquine classify --calibration" wrote for the same checkpoint, or for the same
checkpoints and weights.

` + ensembleHelp + `
The default format is tsv for --in, and table for one triple. csv, tsv and json
are written while the triples are read, for any number of triples. Other formats
need all triples in memory. If the command fails, the lines printed so far are
correct, but the output is incomplete.

` + loadingHelp,
		Example: `  mquine score ./ckpt --in triples.tsv
  mquine score ./ckpt --data umls --in triples.tsv --ranks
  mquine score ./ckpt --head steroid --relation affects --tail fungus
  mquine score ./a ./b --ensemble 1,0.5 --in triples.tsv
  cut -f 1-3 candidates.tsv | mquine score ./ckpt --in - --format csv`,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if s.in != "" && !cmd.Flags().Changed("format") {
				s.format = text.FormatTSV
			}
			return s.check(cmd)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd) },
	}
	flags := cmd.Flags()
	s.inputs.addOptional(cmd)
	s.inputs.addEnsemble(cmd)
	flags.StringVar(&s.in, "in", "", "read triples from `FILE` (- is standard input)")
	flags.StringVar(&s.head, "head", "", "head `ENTITY` of one triple")
	flags.StringVar(&s.relation, "relation", "", "`RELATION` of one triple")
	flags.StringVar(&s.tail, "tail", "", "tail `ENTITY` of one triple")
	inGroup(cmd, queryFlags, "in", "head", "relation", "tail")
	markInput(cmd, "in")
	addChoice(cmd, &s.side, "side", "score the triple as an answer to (h, r, ?), tail, to (?, r, t), head, or both",
		rank.TailSide, rank.HeadSide, rank.BothSides)
	flags.BoolVar(&s.ranks, "ranks", false, "add the ranks of the tail and of the head; needs --data")
	addChoice(cmd, &s.filter, "filter", "filter of the ranks: none, train or all", rank.None, rank.Train, rank.All)
	addChoice(cmd, &s.ties, "ties", "tie rule of the ranks: optimistic, pessimistic, realistic or rounded",
		rank.Optimistic, rank.Pessimistic, rank.Realistic, rank.Rounded)
	inGroup(cmd, protocolFlags, "side", "ranks", "filter", "ties")
	s.calibrated.add(cmd)
	s.printed.add(cmd, text.FormatTSV)
	s.compute.add(cmd)
	return cmd
}

// scoring scores triples. It holds the flags of score.
type scoring struct {
	inputs
	compute
	printed
	calibrated
	in                   string
	head, relation, tail string
	side                 rank.Sides
	ranks                bool
	filter               rank.Filter
	ties                 rank.Ties
}

// check refuses flags that contradict each other.
func (s *scoring) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	fields := 0
	for _, name := range []string{"head", "relation", "tail"} {
		if given(name) {
			fields++
		}
	}
	switch {
	case given("in") && fields > 0:
		return errors.New("--in already gives the triples: leave out --head, --relation and --tail")
	case !given("in") && fields < 3:
		return errors.New("the triples are missing: give --in, or --head, --relation and --tail")
	case s.ensemble.word == fittedWeights && s.data == "":
		return errors.New("--ensemble fit needs --data: the weights are fitted to its valid split")
	case s.ranks && s.data == "":
		return errors.New("--ranks needs --data: the filters leave out known answers")
	case !s.ranks && (given("filter") || given("ties")):
		return errors.New("--filter and --ties apply to ranks: add --ranks, or leave them out")
	}
	return nil
}

func (s *scoring) run(cmd *cobra.Command) (err error) {
	ctx, log := cmd.Context(), cmd.ErrOrStderr()
	backend, err := s.compute.resolve()
	if err != nil {
		return err
	}
	calibration, err := s.calibrated.read(ctx, s.side.String())
	if err != nil {
		return err
	}
	opened, err := s.inputs.open(ctx, log)
	if err != nil {
		return err
	}
	defer opened.close()
	defer func() { err = opened.explain(ctx, err) }()
	opened.noteData(log, s.ranks || s.ensemble.word == fittedWeights)
	for _, note := range model.ScoreNotes(opened.model.Config()) {
		printNote(log, "%s", note)
	}
	w := &scorer{
		scoring: s, subject: opened, meter: newMeter(log),
		options: rank.Options{Backend: backend, Threads: s.threads},
	}
	if opened.graph != nil {
		if w.labels, err = kg.ReadLabels(ctx, opened.graph.Dir); err != nil {
			return err
		}
		if s.ranks {
			if err := s.filter.Check(opened.graph); err != nil {
				return err
			}
		}
		if w.index, err = opened.buildIndex(ctx); err != nil {
			return err
		}
		w.complete = len(missingSplits(opened.graph)) == 0
	}
	if err := s.ensemble.fit(ctx, log, w.meter, opened, w.index, w.options); err != nil {
		return err
	}
	if w.calibration, err = calibration.of(ctx, opened); err != nil {
		return err
	}
	result, err := w.describe(ctx)
	if err != nil {
		return err
	}
	result.triples = w.triples(ctx, cmd.InOrStdin(), log)
	err = result.print(cmd.Context(), cmd.OutOrStdout(), &s.printed)
	err = cmp.Or(result.failed, err)
	if err == nil { // result.print has flushed all lines
		fmt.Fprintf(log, "scored %s\n", text.Plural(w.count, "triple"))
	}
	return err
}

// scorer scores triples in batches.
type scorer struct {
	*scoring
	*subject
	index *kg.Index // nil without a data set
	// complete reports whether the data set has all three splits.
	complete bool
	options  rank.Options
	meter    *meter
	labels   map[string]string // nil without labels.tsv
	count    int               // scored triples
	// calibration is nil without --calibration.
	calibration *classify.Calibration
}

// describe returns the result without its triples.
func (w *scorer) describe(ctx context.Context) (*scores, error) {
	score := "weighted sum of the scores of its models, without margins"
	if w.ensemble.paths == nil {
		spec, err := model.Lookup(w.model.Config().Model)
		if err != nil {
			return nil, err
		}
		score = spec.Score
	}
	r := &scores{
		Schema: "mquine.score/1", Provenance: computedOn(ctx, w.options.Backend.Tier.String(), w.threads, ""),
		Formula: score, Better: "higher", Side: w.side.String(), Triples: []scoredTriple{},
		known: w.index != nil, ranks: w.ranks, calibration: w.calibration, labels: w.labels,
	}
	r.explanation = append(r.explanation, fmt.Sprintf("Score of %s: %s.", w.model.Config().Model, score))
	if c := w.model.Config(); c.Reciprocal {
		a := map[rank.Sides]float64{
			rank.TailSide: c.InverseWeight, rank.HeadSide: 1 - c.InverseWeight, rank.BothSides: 0.5,
		}[w.side]
		sum := fmt.Sprintf("%.4g s(h, r, t) + %.4g s(t, r⁻¹, h)", 1-a, a)
		if a == 1 {
			sum = "s(t, r⁻¹, h)"
		}
		if a != 0 {
			r.Formula = fmt.Sprintf("%s with s = %s", sum, score)
			r.explanation = append(r.explanation, fmt.Sprintf("Here: %s, where s is this score.", sum))
		}
	}
	for _, m := range w.described().Members {
		r.explanation = append(r.explanation, fmt.Sprintf("Weight %.4g: %s.", m.Weight, m.ModelText()))
	}
	if w.ranks {
		r.Filter, r.Ties = w.filter.String(), w.ties.String()
	}
	return r, w.subject.describe(ctx, &r.Provenance, w.wantsJSON())
}

// scoreBatch is the number of triples in a batch. After each batch, the command checks whether the
// checkpoint has changed.
const scoreBatch = 1 << 16

// errStopped ends reading because the consumer of the triples has stopped.
var errStopped = errors.New("stopped")

// triples reads the triples and scores them. An error ends the sequence.
func (w *scorer) triples(ctx context.Context, stdin io.Reader, log io.Writer) iter.Seq2[scoredTriple, error] {
	return func(yield func(scoredTriple, error) bool) {
		var (
			batch  []kg.Triple
			failed error // error of scoring, not of reading
		)
		flush := func() error {
			scored, err := w.score(ctx, batch)
			if err != nil {
				failed = err
				return errStopped
			}
			for _, t := range scored {
				if !yield(t, nil) {
					return errStopped
				}
			}
			w.count += len(batch)
			batch = batch[:0]
			return nil
		}
		err := w.read(ctx, stdin, log, func(t kg.Triple) error {
			if batch = append(batch, t); len(batch) < scoreBatch {
				return nil
			}
			return flush()
		})
		if err == nil {
			err = flush()
		}
		if errors.Is(err, errStopped) {
			err = failed
		}
		if err != nil {
			yield(scoredTriple{}, err)
		}
	}
}

// read calls add with each triple that the flags or the file give.
func (w *scorer) read(ctx context.Context, stdin io.Reader, log io.Writer, add func(kg.Triple) error) error {
	parse := func(fields [3]string) error {
		t, err := parseTriple(w.checkpoint.Entities, w.checkpoint.Relations, fields)
		if err != nil {
			return err
		}
		return add(t)
	}
	if w.in == "" {
		return parse([3]string{w.head, w.relation, w.tail})
	}
	file, name, err := openLines(ctx, w.in, "triples", stdin, log)
	if err != nil {
		return err
	}
	defer file.Close()
	empty := true
	addLine := func(fields [3]string) error {
		empty = false
		return parse(fields)
	}
	err = readLines(ctx, name, "head, relation and tail", file, w.checkpoint.Relations, addLine)
	if err == nil && empty {
		err = fmt.Errorf("%s is empty: it must hold at least one triple", name)
	}
	return err
}

// score scores a batch of triples. It returns an error if the checkpoint has changed.
func (w *scorer) score(ctx context.Context, batch []kg.Triple) ([]scoredTriple, error) {
	if len(batch) == 0 {
		return nil, nil
	}
	m := w.model
	values, err := rank.Scores(ctx, m, batch, w.side, w.options)
	if err != nil {
		return nil, err
	}
	var ranks []rank.Rank
	if w.ranks {
		o := w.options
		o.Progress = w.meter.ranking
		if w.count > 0 || len(batch) == scoreBatch { // the number of batches is unknown
			w.meter.task = fmt.Sprintf("triples %s to %s", text.Comma(w.count+1), text.Comma(w.count+len(batch)))
		}
		r, err := rank.Run(ctx, m, w.index, batch, o)
		w.meter.clear()
		if err != nil {
			return nil, err
		}
		ranks = r.Ranks
	}
	if err := w.verify(ctx); err != nil {
		return nil, err
	}
	scored := make([]scoredTriple, len(batch))
	for i, t := range batch {
		scored[i] = scoredTriple{
			Head: w.checkpoint.Entities.Label(t.Head), Relation: w.checkpoint.Relations.Label(t.Relation),
			Tail: w.checkpoint.Entities.Label(t.Tail), Score: values[i],
		}
		scored[i].HeadLabel, scored[i].RelationLabel, scored[i].TailLabel =
			w.labels[scored[i].Head], w.labels[scored[i].Relation], w.labels[scored[i].Tail]
		if w.calibration != nil {
			p := w.calibration.Probability(scored[i].Score)
			scored[i].Probability = &p
		}
		if w.index != nil {
			known := knownIn(w.index.Splits(t), w.complete)
			scored[i].Known = &known
		}
		if ranks != nil {
			tail, head := w.ties.Rank(&ranks[i], w.filter), w.ties.Rank(&ranks[len(batch)+i], w.filter)
			scored[i].TailRank, scored[i].HeadRank = &tail, &head
		}
	}
	return scored, nil
}
