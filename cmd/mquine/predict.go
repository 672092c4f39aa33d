package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
)

// scoreHelp returns text with one line for each model, which gives the model's score.
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
of the three splits, "?" marks answers that the other splits do not have.
--filter-known hides known answers and needs all three splits.

--in reads many queries from a file, or from standard input if the file is "-".
Each line has a head, a relation and a tail, separated by tabs, with ? as the
head or the tail. The output then has a header and one line for each answer:
head, relation, tail, rank, label, score and known (yes, no or ?), separated by
tabs. Files and pipes get the exact labels. Tables and terminals show control
and invisible characters as escapes, such as \x1b.`,
		Example: `  mquine predict ./ckpt --data umls --head steroid --relation isa
  mquine predict ./ckpt --data umls --tail steroid --relation isa -k 3
  printf 'steroid\tisa\t?\n' | mquine predict ./ckpt --data umls --in -`,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return cmp.Or(p.check(cmd), p.gpus.check(p.compute)) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
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
	inGroup(cmd, outputFlags, "k", "filter-known")
	p.compute.addWithDevices(cmd, &p.gpus)
	return cmd
}

// prediction predicts the best answers to queries. It holds the flags of predict.
type prediction struct {
	inputs
	compute
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

// run answers the queries and prints the answers to out. Progress and notes go to log.
func (p *prediction) run(ctx context.Context, in io.Reader, out, log io.Writer) error {
	backend, err := p.compute.resolve()
	if err != nil {
		return err
	}
	meter := newMeter(log)
	engine, closeEngine, err := p.gpus.open(p.compute, log, meter)
	if err != nil {
		return err
	}
	defer closeEngine()
	s, err := p.inputs.open(ctx, log)
	if err != nil {
		return err
	}
	defer s.close()
	s.writeNotes(log)
	complete, err := p.checkSplits(s.graph)
	if err != nil {
		return err
	}
	queries, err := p.queries(ctx, in, log, s.graph)
	if err != nil {
		return err
	}
	index := kg.NewIndex(s.graph)
	options := rank.Options{Backend: backend, Engine: engine, Threads: p.threads, Progress: meter.ranking}
	if options, err = options.Resolve(ctx, s.checkpoint.Model); err != nil {
		return err
	}
	if options.Engine != nil {
		printLine(details(log), "on %v", options.Engine)
	}
	lists, err := rank.Predict(ctx, s.checkpoint.Model, index, queries, p.k, p.filterKnown, options)
	meter.clear()
	if err != nil {
		return err
	}
	if err := s.verify(ctx); err != nil {
		return err
	}
	for _, list := range lists {
		for i := range list {
			list[i].Score = s.checkpoint.Model.Score(list[i].Score)
		}
	}
	for _, note := range model.ScoreNotes(s.checkpoint.Model.Config()) {
		printNote(log, "%s", note)
	}
	if p.in != "" {
		err = writeLists(text.Exact(out), s.graph, queries, lists, complete)
	} else {
		err = writeList(out, s.graph, queries[0], lists[0], complete)
	}
	if err != nil {
		return fmt.Errorf("cannot print the answers: %w", text.Cause(err))
	}
	return nil
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

// queries returns the queries that the flags or the file give, in the identifiers of g.
func (p *prediction) queries(ctx context.Context, in io.Reader, log io.Writer, g *kg.Graph) ([]kg.Query, error) {
	if p.in == "" {
		fields := [3]string{p.head, p.relation, unknown}
		if p.tail != "" {
			fields = [3]string{unknown, p.relation, p.tail}
		}
		q, err := parseQuery(g, fields)
		return []kg.Query{q}, err
	}
	name := p.in
	if p.in == "-" {
		name = "standard input"
		fmt.Fprintln(log, "reading queries from standard input")
		file := input.NewReader(ctx, in)
		defer file.Close()
		return readQueries(name, file, g)
	}
	file, err := input.Open(ctx, p.in)
	if err != nil {
		return nil, fmt.Errorf("cannot read queries from %s: %w; name a file, or - for standard input", p.in,
			text.Cause(err))
	}
	defer file.Close()
	return readQueries(name, file, g)
}

// writeList prints the answers to one query as a table. It passes complete to knownText.
func writeList(w io.Writer, g *kg.Graph, q kg.Query, list []rank.Prediction, complete bool) error {
	fields := queryFields(g, q)
	t := text.NewTable(1, 3)
	t.AppendHeader(table.Row{"rank", "label", "score", "known"})
	for i, p := range list {
		score := strconv.FormatFloat(p.Score, 'g', 7, 64)
		t.AppendRow(table.Row{i + 1, g.Entities.Label(p.Entity), score, knownText(p.Known, complete)})
	}
	_, err := fmt.Fprintf(w, "(%s)\n\n%s\n", text.Escape(strings.Join(fields[:], ", ")), t.Render())
	return err
}

// writeLists writes the answers to many queries as tab-separated lines. It passes complete to
// knownText.
func writeLists(w io.Writer, g *kg.Graph, queries []kg.Query, lists [][]rank.Prediction, complete bool) error {
	buf := newLineWriter(w)
	buf.write("head", "relation", "tail", "rank", "label", "score", "known")
	for i, list := range lists {
		fields := queryFields(g, queries[i])
		for j, p := range list {
			buf.write(fields[0], fields[1], fields[2], strconv.Itoa(j+1), g.Entities.Label(p.Entity),
				strconv.FormatFloat(p.Score, 'g', -1, 64), knownText(p.Known, complete))
		}
	}
	return buf.flush()
}

// knownText returns the text for the column "known". complete says whether the data set has all
// three splits. If it lacks one, an answer that is in no split may still be known.
func knownText(known, complete bool) string {
	switch {
	case known:
		return "yes"
	case complete:
		return "no"
	}
	return unknown
}
