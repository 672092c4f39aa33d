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
		const width = 10
		name := s.Name
		if len(name) > width { // the longest formulas leave no room for a wider column
			fmt.Fprintf(&list, "  %s\n", name)
			name = ""
		}
		fmt.Fprintf(&list, "  %-*s  %s\n", width, name, s.Score)
	}
	return list.String()
}

func newPredictCommand() *cobra.Command {
	p := &prediction{k: 10}
	cmd := &cobra.Command{
		Use:   "predict CKPT... --data NAME --head X --relation R",
		Short: "Predict the best answers to a query",
		Long: `Predict the best answers to a query: (X, R, ?) for --head X --relation R,
(?, R, X) for --tail X --relation R, or (X, ?, Y) for --head X --tail Y, whose
answers are relations.

The score says how plausible the model finds the triple. Higher is better. The
scale depends on the model:

` + scoreHelp() + `
Answers with equal scores appear in the order of the labels in the checkpoint.
Models with reciprocal relations score (X, ?, Y) as tail queries. The processor
answers (X, ?, Y), even if GPUs answer other queries.

An answer is known if its triple is in the data set. If the data set lacks one
of the three splits, the table shows "?" for answers that the other splits do
not have. --filter-known hides known answers and needs all three splits.

` + candidatesHelp + `
` + ensembleHelp + `
--in reads many queries from a file, or from standard input if the file is "-".
Each line has a head, a relation and a tail, separated by tabs, one of them ?.
The default format is then tsv.

In csv, tsv and json, each answer is a complete triple: head, relation, tail,
answer (head, relation or tail: the side that was asked for), rank, label (of
the answer, from labels.tsv), score and known (true, false or, if it is not
certain, empty).
Files and pipes get the exact labels. Tables and terminals show control and
invisible characters as escapes, such as \x1b.

` + loadingHelp,
		Example: `  mquine predict ./ckpt --data umls --head steroid --relation isa
  mquine predict ./ckpt --data umls --tail steroid --relation isa -k 3
  mquine predict ./ckpt --data umls --head steroid --tail hormone
  mquine predict ./a ./b --ensemble fit --data umls --in queries.tsv
  printf 'steroid\tisa\t?\n' | mquine predict ./ckpt --data umls --in -
  mquine predict ./ckpt --data umls --in queries.tsv --format json`,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if p.in != "" && !cmd.Flags().Changed("format") {
				p.format = text.FormatTSV
			}
			return cmp.Or(p.check(cmd), p.restriction.check(), p.checkAsked(), p.gpus.check(p.compute))
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
	p.inputs.add(cmd)
	p.inputs.addEnsemble(cmd)
	flags.StringVar(&p.head, "head", "", "head `ENTITY` of the query")
	flags.StringVar(&p.tail, "tail", "", "tail `ENTITY` of the query")
	flags.StringVar(&p.relation, "relation", "", "`RELATION` of the query")
	flags.StringVar(&p.in, "in", "", "read queries from `FILE` (- is standard input)")
	flags.VarP(positive{n: &p.k}, "k", "k", "number of answers per query")
	flags.BoolVar(&p.filterKnown, "filter-known", false, "hide known answers")
	inGroup(cmd, queryFlags, "head", "tail", "relation", "in")
	markInput(cmd, "in")
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
	case given("head") && given("tail") && given("relation"):
		return errors.New("leave out one of --head, --relation and --tail: the query asks for it")
	case !given("head") && !given("tail") || !given("relation") && !(given("head") && given("tail")):
		return errors.New("the query is missing: give two of --head, --relation and --tail, or --in")
	}
	return nil
}

// checkAsked refuses a restriction of the side for which the query of the flags does not ask.
func (p *prediction) checkAsked() error {
	return p.restriction.checkSides(func(side kg.Side) bool {
		return p.in != "" || side == kg.Tail && p.tail == "" || side == kg.Head && p.head == ""
	})
}

// run answers the queries. Progress and notes go to log.
func (p *prediction) run(ctx context.Context, in io.Reader, log io.Writer) (list *answers, err error) {
	s, err := openSession(ctx, log, p.inputs, p.compute, p.gpus)
	if err != nil {
		return nil, err
	}
	defer s.close()
	defer func() { err = s.explain(ctx, err) }()
	s.writeNotes(log)
	list = &answers{
		Schema: "mquine.predict/1", K: p.k, FilterKnown: p.filterKnown, Answers: []answer{}, single: p.in == "",
	}
	if list.labels, err = kg.ReadLabels(ctx, s.graph.Dir); err != nil {
		return nil, err
	}
	missing := missingSplits(s.graph)
	if p.filterKnown && len(missing) > 0 {
		return nil, fmt.Errorf("--filter-known needs the %v split, which data set %s lacks: "+
			"put %[1]v.txt into %[3]s, or leave out --filter-known", missing[0], s.graph.Name, s.graph.Dir)
	}
	queries, err := p.queries(ctx, in, log, s.graph)
	if err != nil {
		return nil, err
	}
	if err := p.restriction.checkSides(func(side kg.Side) bool {
		return slices.ContainsFunc(queries, func(q question) bool { return q.side == side })
	}); err != nil {
		return nil, err
	}
	if p.restriction.given() && slices.ContainsFunc(queries, question.asksRelation) {
		return nil, errors.New("lists and types of candidates are for entities: leave them out, or the queries that " +
			"ask for relations")
	}
	if err := p.checkGPUs(queries); err != nil {
		return nil, err
	}
	s.options.Progress = s.meter.ranking
	if s.options.Among, list.Restrictions, err = p.restriction.load(ctx, s.subject, log); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, &p.ensemble); err != nil {
		return nil, err
	}
	if s.options.Engine != nil {
		printLine(details(log), "on %v", s.options.Engine)
	}
	lists, err := p.answer(ctx, s, queries)
	s.meter.clear()
	if err != nil {
		return nil, err
	}
	if err := s.verify(ctx); err != nil {
		return nil, err
	}
	noteAnswers(log, s.model, lists)
	list.Provenance = s.computed(ctx)
	if err := s.describe(ctx, &list.Provenance, p.wantsJSON()); err != nil {
		return nil, err
	}
	list.set(s, queries, lists, len(missing) == 0, p.wantsJSON())
	return list, nil
}

// checkGPUs refuses GPUs if all queries ask for relations.
func (p *prediction) checkGPUs(queries []question) error {
	name := firstGiven(
		optionalFlag{p.backend == cudaBackend, "--backend cuda"}, optionalFlag{len(p.indices) > 0, "--devices"})
	if name == "" || slices.ContainsFunc(queries, func(q question) bool { return !q.asksRelation() }) {
		return nil
	}
	return fmt.Errorf("%s does not apply to queries for relations, which the processor answers: leave it out", name)
}

// noteAnswers prints notes about the scores of a model and about queries without answers.
func noteAnswers(log io.Writer, m model.Model, lists [][]rank.Prediction) {
	for _, note := range model.ScoreNotes(m.Config()) {
		printNote(log, "%s", note)
	}
	empty := 0
	for _, list := range lists {
		if len(list) == 0 {
			empty++
		}
	}
	switch {
	case empty == 1 && len(lists) == 1:
		printNote(log, "the query has no candidate left")
	case empty > 0:
		printNote(log, "%s no candidate left", text.Count(empty, "query has", "queries have"))
	}
}

// answer predicts the answers to each query.
func (p *prediction) answer(ctx context.Context, s *session, queries []question) ([][]rank.Prediction, error) {
	var ofEntities []kg.Query
	var ofRelations []kg.Triple
	for _, q := range queries {
		if q.asksRelation() {
			ofRelations = append(ofRelations, q.triple)
		} else {
			query, _ := q.triple.Query(q.side)
			ofEntities = append(ofEntities, query)
		}
	}
	top := rank.Top{K: p.k, FilterKnown: p.filterKnown}
	var entities, relations [][]rank.Prediction
	var err error
	if len(ofEntities) > 0 {
		if entities, err = rank.Predict(ctx, s.model, s.index, ofEntities, top, s.options); err != nil {
			return nil, err
		}
	}
	if len(ofRelations) > 0 {
		relations, err = rank.PredictRelations(ctx, s.model, s.index, ofRelations, top, s.options)
		if err != nil {
			return nil, err
		}
	}
	lists := make([][]rank.Prediction, len(queries))
	for i, q := range queries {
		from := &entities
		if q.side == kg.Relation {
			from = &relations
		}
		lists[i], *from = (*from)[0], (*from)[1:]
	}
	return lists, nil
}

// queries returns the queries that the flags or the file give. They use the identifiers of g.
func (p *prediction) queries(ctx context.Context, in io.Reader, log io.Writer, g *kg.Graph) ([]question, error) {
	if p.in == "" {
		// A label ? in a flag is a label.
		q, err := findQuery(g, [3]string{p.head, p.relation, p.tail},
			[3]bool{p.head == "", p.relation == "", p.tail == ""})
		if err != nil && slices.Contains([]string{p.head, p.relation, p.tail}, unknown) {
			err = fmt.Errorf("%w; leave out the flag of the side that you ask for", err)
		}
		return []question{q}, err
	}
	file, name, err := openLines(ctx, p.in, "queries", in, log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readQueries(ctx, name, file, g)
}

// answers is the JSON result of predict.
type answers struct {
	Schema      string             `json:"schema"`
	Provenance  metrics.Provenance `json:"provenance"`
	K           int                `json:"k"`
	FilterKnown bool               `json:"filter_known"`
	// Restrictions describes the candidates, unless they are all entities.
	Restrictions *metrics.Restrictions `json:"restrictions,omitempty"`
	// Queries is the number of queries. Answers lists the answers, query by query. It is empty
	// unless the result is written as JSON.
	Queries int      `json:"queries"`
	Answers []answer `json:"answers"`

	all    iter.Seq[answer]
	single bool // the flags give the query, and title names it
	title  string
	sides  rank.Sides // the sides of the queries for entities
	labels map[string]string
}

// set sets the answers to the queries. With listed, the list Answers holds them, too.
func (l *answers) set(s *session, queries []question, lists [][]rank.Prediction, complete, listed bool) {
	l.Queries = len(queries)
	g := s.graph
	l.sides = sidesOf(queries)
	l.all = func(yield func(answer) bool) {
		for i, found := range lists {
			for j, f := range found {
				f.Score = s.model.Score(f.Score) // not in found, which equal queries share
				if !yield(newAnswer(g, queries[i], j+1, f, complete, l.labels)) {
					return
				}
			}
		}
	}
	if listed {
		l.Answers = slices.AppendSeq(l.Answers, l.all)
	}
	if l.single {
		fields := queries[0].fields(g)
		for i, field := range fields {
			if field != unknown {
				fields[i] = withLabel(field, l.labels)
			}
		}
		l.title = "(" + strings.Join(fields[:], ", ") + ")"
	}
}

// sidesOf returns the sides on which queries ask for entities.
func sidesOf(queries []question) rank.Sides {
	switch asks := func(side kg.Side) bool {
		return slices.ContainsFunc(queries, func(q question) bool { return q.side == side })
	}; {
	case !asks(kg.Head):
		return rank.TailSide
	case !asks(kg.Tail):
		return rank.HeadSide
	}
	return rank.BothSides
}

// remarks names the weights of the score, if it has any, and the candidates.
func (l *answers) remarks() []string {
	return append(weightRemark(l.Provenance.Checkpoint), l.protocol()...)
}

// protocol says which candidates the answers are among.
func (l *answers) protocol() (lines []string) {
	if l.Restrictions != nil {
		sentence := l.Restrictions.Sentence(l.sides, l.Provenance.Data.Entities)
		lines = append(lines, strings.Split(text.Wrap(sentence), "\n")...)
	}
	if l.FilterKnown {
		lines = append(lines, "Known answers are left out.")
	}
	return lines
}

// weightRemark returns lines that describe the score of a checkpoint if it has weights.
func weightRemark(c metrics.Checkpoint) []string {
	if c.Members == nil && c.InverseWeight == 0 {
		return nil
	}
	return strings.Split(text.Wrap(fmt.Sprintf("Model: %s.", c.ModelText())), "\n")
}

// answer is an answer to a query, with the triple that it completes.
type answer struct {
	Head     string `json:"head"`
	Relation string `json:"relation"`
	Tail     string `json:"tail"`
	// Answer is the side of the answer: head, relation or tail.
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
	g *kg.Graph, q question, place int, p rank.Prediction, complete bool, labels map[string]string,
) answer {
	fields := q.fields(g)
	a := answer{
		Head: fields[0], Relation: fields[1], Tail: fields[2], Answer: q.side.String(), Rank: place, Score: p.Score,
	}
	vocabulary := g.Entities
	if q.side == kg.Relation {
		vocabulary = g.Relations
	}
	*a.member() = vocabulary.Label(p.Answer)
	a.Label = labels[*a.member()]
	if p.Known || complete {
		a.Known = &p.Known
	}
	return a
}

// member returns the member of the triple that is the answer.
func (a *answer) member() *string {
	switch a.Answer {
	case kg.Head.String():
		return &a.Head
	case kg.Relation.String():
		return &a.Relation
	default:
		return &a.Tail
	}
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
	t.Caption = strings.Join(append([]string{
		fmt.Sprintf("Model: %s.", l.Provenance.Checkpoint.ModelText()),
	}, l.protocol()...), " ")
	for a := range l.all {
		known := unknown
		switch {
		case a.Known != nil && *a.Known:
			known = "yes"
		case a.Known != nil:
			known = "no"
		}
		score := strconv.FormatFloat(a.Score, 'g', 7, 64)
		if l.single {
			t.AppendRow([]any{a.Rank, withLabel(*a.member(), l.labels), score, known})
		} else {
			t.AppendRow([]any{
				withLabel(a.Head, l.labels), withLabel(a.Relation, l.labels), withLabel(a.Tail, l.labels),
				a.Rank, score, known,
			})
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
