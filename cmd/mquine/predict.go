package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
)

// scoreHelp returns one line for each model, with the formula of its score.
func scoreHelp() string {
	var list strings.Builder
	for _, s := range model.Specs() {
		fmt.Fprintf(&list, "  %-10s %s\n", s.Name, s.Score)
	}
	return list.String()
}

func newPredictCommand() *cobra.Command {
	p := &prediction{k: 10}
	cmd := &cobra.Command{
		Use:   "predict CKPT --data NAME --head X --relation R",
		Short: "Predict the best answers to a query",
		Long: `Predict the best answers to a query: (X, R, ?) for --head X --relation R, or
(?, R, X) for --tail X --relation R.

The score says how plausible the model finds the triple. Higher is better. The
scale depends on the model:

` + scoreHelp() + `
Entities with equal scores appear in the order of the checkpoint.

An answer is known if its triple is in the data set. If the data set lacks one
of the three splits, the table shows "?" for answers that the other splits do
not have. --filter-known hides known answers and needs all three splits.

` + candidatesHelp + `
--in reads many queries from a file, or from standard input if the file is "-".
Each line has a head, a relation and a tail, separated by tabs, with ? as the
head or the tail. The default format is then tsv.

In csv, tsv and json, each answer is a complete triple: head, relation, tail,
answer (head or tail: the side that was asked for), rank, label (of the answer,
from labels.tsv), score and known (true, false or, if it is not certain, empty).
Files and pipes get the exact labels. Tables and terminals show control and
invisible characters as escapes, such as \x1b.

` + loadingHelp,
		Example: `  mquine predict ./ckpt --data umls --head steroid --relation isa
  mquine predict ./ckpt --data umls --tail steroid --relation isa -k 3
  printf 'steroid\tisa\t?\n' | mquine predict ./ckpt --data umls --in -
  mquine predict ./ckpt --data umls --in queries.tsv --format json`,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if p.in != "" && !cmd.Flags().Changed("format") {
				p.format = text.FormatTSV
			}
			return cmp.Or(p.check(cmd), p.restriction.check(), p.gpus.check(p.compute))
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			answers, err := p.run(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return p.print(cmd, answers)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	p.inputs.add(cmd)
	flags.StringVar(&p.head, "head", "", "head `ENTITY` of the query")
	flags.StringVar(&p.tail, "tail", "", "tail `ENTITY` of the query")
	flags.StringVar(&p.relation, "relation", "", "`RELATION` of the query")
	flags.StringVar(&p.in, "in", "", "read queries from `FILE` (- is standard input)")
	flags.VarP(positive{n: &p.k}, "k", "k", "number of answers per query")
	flags.BoolVar(&p.filterKnown, "filter-known", false, "hide known answers")
	inGroup(cmd, queryFlags, "head", "tail", "relation", "in")
	p.restriction.add(cmd)
	p.printed.add(cmd, text.FormatTSV)
	p.compute.addWithDevices(cmd, &p.gpus)
	return cmd
}

// prediction predicts the best answers to queries. It holds the flags of predict.
type prediction struct {
	inputs
	compute
	restriction
	printed
	gpus
	head, tail, relation string
	in                   string
	k                    int
	filterKnown          bool
}

// check refuses flags that contradict each other.
func (p *prediction) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	switch single := given("head") || given("tail") || given("relation"); {
	case given("in") && single:
		return errors.New("--in already gives the queries: leave out --head, --tail and --relation")
	case given("in"):
		return nil
	case given("head") && given("tail"):
		return errors.New("give --head or --tail, not both: the query asks for the other one")
	case !given("head") && !given("tail") || !given("relation"):
		return errors.New("the query is missing: give --head and --relation, --tail and --relation, or --in")
	}
	return nil
}

// run answers the queries. Progress and notes go to log.
func (p *prediction) run(ctx context.Context, in io.Reader, log io.Writer) (*answers, error) {
	backend, err := p.compute.resolve()
	if err != nil {
		return nil, err
	}
	meter := newMeter(log)
	engine, closeEngine, err := p.gpus.open(p.compute, log, meter)
	if err != nil {
		return nil, err
	}
	defer closeEngine()
	s, err := p.inputs.open(ctx, log)
	if err != nil {
		return nil, err
	}
	defer s.close()
	s.writeNotes(log)
	complete, err := p.checkSplits(s.graph)
	if err != nil {
		return nil, err
	}
	queries, err := p.queries(ctx, in, log, s.graph)
	if err != nil {
		return nil, err
	}
	index := kg.NewIndex(s.graph)
	among, described, err := p.restriction.load(ctx, s)
	if err != nil {
		return nil, err
	}
	options := rank.Options{
		Backend: backend, Engine: engine, Threads: p.threads, Progress: meter.ranking, Among: among,
	}
	if options, err = options.Resolve(ctx, s.checkpoint.Model); err != nil {
		return nil, err
	}
	if options.Engine != nil {
		printLine(details(log), "on %v", options.Engine)
	}
	lists, err := rank.Predict(ctx, s.checkpoint.Model, index, queries, p.k, p.filterKnown, options)
	meter.clear()
	if err != nil {
		return nil, err
	}
	if err := s.verify(ctx); err != nil {
		return nil, err
	}
	for _, list := range lists {
		for i := range list {
			list[i].Score = s.checkpoint.Model.Score(list[i].Score)
		}
	}
	for _, note := range model.ScoreNotes(s.checkpoint.Model.Config()) {
		printNote(log, "%s", note)
	}
	list := &answers{
		Schema: "mquine.predict/1", Provenance: provenance(ctx), K: p.k, FilterKnown: p.filterKnown,
		Restrictions: described, Queries: len(queries), Answers: []answer{}, single: p.in == "",
	}
	from := &list.Provenance
	from.Machine.Tier, from.Machine.Threads = backend.Tier.String(), p.threads
	if options.Engine != nil {
		from.Machine.Tier, from.Machine.CPU = cudaBackend, from.Machine.CPU+", "+options.Engine.String()
	}
	var digests [2]string
	if p.wantsJSON() {
		if digests, err = s.digests(ctx); err != nil {
			return nil, err
		}
	}
	from.Checkpoint = describedCheckpoint(s.checkpoint.Path, s.checkpoint.Model.Config(), digests[0])
	from.Data = describedData(s.graph, digests[1])
	labels, err := kg.ReadLabels(ctx, s.graph.Dir)
	if err != nil {
		return nil, err
	}
	list.all = func(yield func(answer) bool) {
		for i, found := range lists {
			for j, f := range found {
				if !yield(newAnswer(s.graph, queries[i], j+1, f, complete, labels)) {
					return
				}
			}
		}
	}
	if p.wantsJSON() {
		list.Answers = slices.AppendSeq(list.Answers, list.all)
	}
	if list.single {
		fields := queryFields(s.graph, queries[0])
		list.title = "(" + strings.Join(fields[:], ", ") + ")"
	}
	return list, nil
}

// checkSplits reports whether g has all three splits. With --filter-known, a missing split is an
// error.
func (p *prediction) checkSplits(g *kg.Graph) (complete bool, err error) {
	complete = true
	for split := range kg.NumSplits {
		if g.Has(split) {
			continue
		}
		if p.filterKnown {
			return false, fmt.Errorf("--filter-known needs the %v split, which data set %s lacks: "+
				"put %[1]v.txt into %[3]s, or leave out --filter-known", split, g.Name, g.Dir)
		}
		complete = false
	}
	return complete, nil
}

// queries returns the queries that the flags or the file give. They use the identifiers of g.
func (p *prediction) queries(ctx context.Context, in io.Reader, log io.Writer, g *kg.Graph) ([]kg.Query, error) {
	if p.in == "" {
		fields := [3]string{p.head, p.relation, unknown}
		if p.tail != "" {
			fields = [3]string{unknown, p.relation, p.tail}
		}
		q, err := parseQuery(g, fields)
		return []kg.Query{q}, err
	}
	file, name, err := openLines(ctx, p.in, "queries", in, log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readQueries(name, file, g)
}

// answers is the JSON result of predict.
type answers struct {
	Schema      string             `json:"schema"`
	Provenance  metrics.Provenance `json:"provenance"`
	K           int                `json:"k"`
	FilterKnown bool               `json:"filter_known"`
	// Restrictions describes the candidates, unless they are all entities.
	Restrictions *metrics.Restrictions `json:"restrictions,omitempty"`
	// Queries counts the queries. Answers lists the answers to one query after the other, if they are
	// written as JSON.
	Queries int      `json:"queries"`
	Answers []answer `json:"answers"`

	all    iter.Seq[answer]
	single bool // the flags give the query, and title names it
	title  string
}

// answer is a triple whose head or tail is the answer to a query.
type answer struct {
	Head     string `json:"head"`
	Relation string `json:"relation"`
	Tail     string `json:"tail"`
	// Answer is the side of the answer: head or tail.
	Answer string `json:"answer"`
	Rank   int    `json:"rank"`
	// Label is the readable label of the answer, if there is one.
	Label string  `json:"label,omitempty"`
	Score float64 `json:"score"`
	// Known reports whether the triple is in the data set. It is nil if a split that might have it
	// is missing.
	Known *bool `json:"known"`
}

// newAnswer returns an answer to q. complete reports whether the data set has all three splits.
func newAnswer(
	g *kg.Graph, q kg.Query, place int, p rank.Prediction, complete bool, labels map[string]string,
) answer {
	fields, entity := queryFields(g, q), g.Entities.Label(p.Entity)
	a := answer{
		Head: fields[0], Relation: fields[1], Tail: fields[2], Answer: q.Side.String(), Rank: place,
		Label: labels[entity], Score: p.Score,
	}
	if q.Side == kg.Head {
		a.Head = entity
	} else {
		a.Tail = entity
	}
	if p.Known || complete {
		a.Known = &p.Known
	}
	return a
}

// tables returns a table of answers. If --in is not given, the title is the query. Otherwise every
// line has a complete triple.
func (l *answers) tables() []*text.Table {
	var t *text.Table
	if l.single {
		t = text.NewTable(1, 3)
		t.AppendHeader([]any{"rank", "answer", "score", "known"})
	} else {
		t = text.NewTable(4, 5)
		t.AppendHeader([]any{"head", "relation", "tail", "rank", "score", "known"})
	}
	t.Title = l.title
	for a := range l.all {
		known := unknown
		if a.Known != nil {
			known = map[bool]string{false: "no", true: "yes"}[*a.Known]
		}
		entity := &a.Tail
		if a.Answer == kg.Head.String() {
			entity = &a.Head
		}
		if a.Label != "" {
			*entity += " (" + a.Label + ")"
		}
		score := strconv.FormatFloat(a.Score, 'g', 7, 64)
		if l.single {
			t.AppendRow([]any{a.Rank, *entity, score, known})
		} else {
			t.AppendRow([]any{a.Head, a.Relation, a.Tail, a.Rank, score, known})
		}
	}
	return []*text.Table{t}
}

// records returns a line for each answer.
func (l *answers) records() (header []string, rows iter.Seq[[]string]) {
	return []string{"head", "relation", "tail", "answer", "rank", "label", "score", "known"},
		func(yield func([]string) bool) {
			for a := range l.all {
				known := ""
				if a.Known != nil {
					known = strconv.FormatBool(*a.Known)
				}
				score := strconv.FormatFloat(a.Score, 'g', -1, 64)
				if !yield([]string{
					a.Head, a.Relation, a.Tail, a.Answer, strconv.Itoa(a.Rank), a.Label, score, known,
				}) {
					return
				}
			}
		}
}
