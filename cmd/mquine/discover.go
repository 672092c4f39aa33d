package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/parquetfile"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/metrics/classify"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
)

// The values of --order.
const (
	orderScore = "score"
	orderZ     = "z"

	parquetExtension = ".parquet"
)

func newDiscoverCommand() *cobra.Command {
	d := &discovery{k: 100, scope: rank.PerGraph, order: orderScore}
	cmd := &cobra.Command{
		Use:   "discover CKPT... --data NAME",
		Short: "Find the most plausible unknown triples",
		Long: `Find the triples that a model finds most plausible and that no split of the data
set contains. The search asks (h, r, ?) for all heads and relations, or
(?, r, t) with --side head, and is exact.

--per: the scope in which to keep the best -k triples.
  query     the answers to each query
  relation  the triples of each relation
  graph     all triples

--order: how to compare the answers to different queries. Scores of different
relations may have different scales.
  score  by score
  z      by z-score: the number of standard deviations by which a score exceeds
         the mean of the query's candidates. Mean and deviation come from at
         most ` + strconv.Itoa(rank.ZSample) + ` candidates at regular distances

--calibration adds the probability that a triple is true, from a file that
"mquine classify --calibration" wrote for the same checkpoint, or for the same
checkpoints and weights. The probability grows with the score, so the order
stays the same.

` + ensembleHelp + `
--relation and --relations restrict the relations. The following flags restrict
the heads and the tails of the triples.

` + candidatesHelp + `
Each line has the head, relation and tail, the rank of the triple among the
unknown answers to its query, its score and, if asked for, its z-score and its
probability. If the data set has labels, the columns head_label, relation_label
and tail_label follow. With --per query, the lines are ordered by relation and
query, and with --per relation, by relation. In each scope, the best triple
comes first. The order is the same for any number of threads.

--out writes tab-separated lines to a file or, if its name ends in .parquet, an
Apache Parquet file with the same columns. The file appears once it is complete.
Without --out, the result goes to standard output. With csv and tsv, lines are
written soon after they are certain; the other formats and --json hold all
triples in memory.

--state DIR, which needs --out, saves the unfinished search in DIR about every
30 seconds. After an interruption, the same command continues the search. DIR is
removed at the end.

` + loadingHelp,
		Example: `  mquine discover ./ckpt --data umls -k 20
  mquine discover ./ckpt --data umls --relation treats --per relation
  mquine discover ./ckpt --data fb15k-237 --per query -k 10 --out found.parquet
  mquine discover ./a ./b --ensemble fit --data codex-s --per relation -k 10
  mquine discover ./ckpt --data ./drugs --relation treats --types types.tsv \
      --head-type compound --tail-type disease`,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if d.out == "-" {
				if cmd.Flags().Changed("format") && d.format != text.FormatTSV {
					return errors.New("--out - prints tab-separated lines: leave out --out or --format")
				}
				d.out, d.format = "", text.FormatTSV
			}
			if d.out != "" && cmd.Flags().Changed("format") {
				return errors.New("--format is for standard output, and the name of --out decides between " +
					"tab-separated lines and Parquet: leave out --format")
			}
			if cmd.Flags().Changed("state") && (d.stateDir == "" || d.out == "" || d.wantsJSON()) {
				return errors.New("--state DIR needs --out FILE, and cannot be combined with --json")
			}
			if d.stateDir != "" && (output{flag: "out", path: d.out}).within(d.stateDir) {
				return fmt.Errorf("--out %s is in the folder of --state, which the command removes at the end: "+
					"choose another file", d.out)
			}
			asked := func(kg.Side) bool { return true }
			return cmp.Or(d.restriction.check(), d.restriction.checkSides(asked), d.gpus.check(d.compute))
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return d.run(cmd.Context(), cmd)
		},
	}
	flags := cmd.Flags()
	d.inputs.add(cmd)
	d.inputs.addEnsemble(cmd)
	d.calibrated.add(cmd)
	flags.StringArrayVar(&d.relations, "relation", nil,
		"search for triples of this `RELATION`; repeat the flag for several")
	flags.StringVar(&d.relationsFile, "relations", "",
		"search for triples of the relations in `FILE`, one in each line")
	markInput(cmd, "relations")
	addChoice(cmd, &d.side, "side", "ask for this side: tail or head", kg.Tail, kg.Head)
	flags.VarP(positive{n: &d.k}, "k", "k", "number of triples in each scope of --per")
	addChoice(cmd, &d.scope, "per", "keep the best triples of each query, of each relation or of the graph",
		rank.PerQuery, rank.PerRelation, rank.PerGraph)
	addChoice(cmd, &d.order, "order", "compare triples by score or z", orderScore, orderZ)
	inGroup(cmd, queryFlags, "relation", "relations", "side", "k", "per", "order")
	d.restriction.add(cmd)
	d.printed.add(cmd, text.FormatTSV)
	addOutput(cmd, &d.out, "out", foundFormat,
		"write the triples to `FILE`, tab-separated or, as FILE.parquet, as Parquet")
	flags.StringVar(&d.stateDir, "state", "",
		"keep the unfinished search in `DIR`, to continue after an interruption; needs --out")
	inGroup(cmd, outputFlags, "state")
	d.compute.addWithDevices(cmd, &d.gpus)
	return cmd
}

// discovery holds the flags of discover.
type discovery struct {
	inputs
	compute
	restriction
	printed
	gpus
	calibrated
	relations     []string
	relationsFile string
	side          kg.Side
	k             int
	scope         rank.Scope
	order         string
	out, stateDir string
}

// run searches for the triples and writes them.
func (d *discovery) run(ctx context.Context, cmd *cobra.Command) (err error) {
	calibration, err := d.calibrated.read(ctx, d.side.String())
	if err != nil {
		return err
	}
	s, err := openSession(ctx, cmd.ErrOrStderr(), d.inputs, d.compute, d.gpus)
	if err != nil {
		return err
	}
	defer s.close()
	defer func() { err = s.explain(ctx, err) }()
	s.writeNotes(s.log)
	f := &found{session: s, Schema: "mquine.discover/1", Triples: []foundTriple{}}
	f.Discovery = rank.Discovery{Side: d.side, K: d.k, Scope: d.scope, Standardise: d.order == orderZ}
	if f.Discovery.Relations, err = d.chosenRelations(ctx, s.graph); err != nil {
		return err
	}
	for _, split := range missingSplits(s.graph) {
		printNote(s.log, "without a %v split, its triples may be among the results", split)
	}
	s.options.Progress = s.meter.searching
	if s.options.Among, f.Restrictions, err = d.restriction.load(ctx, s.subject, s.log); err != nil {
		return err
	}
	if f.labels, err = kg.ReadLabels(ctx, s.graph.Dir); err != nil {
		return err
	}
	if err := d.checkMemory(f); err != nil {
		return err
	}
	if err := s.prepare(ctx, &d.ensemble); err != nil {
		return err
	}
	if f.calibration, err = calibration.of(ctx, s.subject); err != nil {
		return err
	}
	if err := d.describe(ctx, f); err != nil {
		return err
	}
	for _, note := range model.ScoreNotes(s.model.Config()) {
		printNote(s.log, "%s", note)
	}
	return d.write(ctx, cmd, f)
}

// write writes the triples to the file that --out names, or to standard output without --out.
func (d *discovery) write(ctx context.Context, cmd *cobra.Command, f *found) error {
	if d.stateDir != "" {
		return d.writeResumable(ctx, f)
	}
	if d.holdsAll() {
		// Search only once for all outputs. A slice of the final size needs less memory than one that
		// grows, but not all systems say whether a very large one fits.
		f.Triples = make([]foundTriple, 0, min(f.mostTriples(), 1<<24))
		for t := range f.search(ctx) {
			f.Triples = append(f.Triples, t)
		}
		if f.err != nil {
			return f.err
		}
		f.complete = true
		f.Provenance.Machine = f.computed(ctx).Machine // the processor may have taken the GPUs' place
	}
	if d.out == "" {
		if err := d.printed.print(cmd, f.in(ctx)); err != nil {
			return err
		}
		return f.err // which the printed rows have set
	}
	_, rows := f.in(ctx).records()
	err := d.writeLines(ctx, f, func(w io.Writer) error {
		if err := text.WriteRows(w, rows); err != nil {
			return err
		}
		return f.err // which the rows have set
	})
	if d.jsonFile != "" { // all triples are in memory
		err = errors.Join(err, writeJSON(cmd, d.jsonFile, f))
	}
	return err
}

// writeLines writes the file of --out. lines writes the tab-separated lines after the header.
func (d *discovery) writeLines(ctx context.Context, f *found, lines func(io.Writer) error) error {
	return writeNamed(ctx, d.out, func(w io.Writer) error {
		if !strings.EqualFold(filepath.Ext(d.out), parquetExtension) {
			if _, err := io.WriteString(w, strings.Join(f.header(), "\t")+"\n"); err != nil {
				return err
			}
			return lines(w)
		}
		table := parquetfile.NewWriter(w, f.columns())
		if err := lines(table); err != nil {
			return err
		}
		return table.Close()
	})
}

// chosenRelations returns the relations that the flags name, or all relations if they name none.
func (d *discovery) chosenRelations(ctx context.Context, g *kg.Graph) (relations []int32, err error) {
	for _, label := range d.relations {
		r, err := g.Relations.Find(checkpointOwner, "relation", label)
		if err != nil {
			return nil, err
		}
		relations = append(relations, r)
	}
	if d.relationsFile != "" {
		listed, err := kg.ReadList(ctx, d.relationsFile, checkpointOwner, "relation", g.Relations)
		if err != nil {
			return nil, adviseMissing(err, "check the name of the file")
		}
		relations = append(relations, listed...)
	}
	if relations == nil {
		for r := range g.Relations.Len() {
			relations = append(relations, int32(r))
		}
	}
	slices.Sort(relations)
	return slices.Compact(relations), nil
}

// describe sets the options and the provenance of a result.
func (d *discovery) describe(ctx context.Context, f *found) (err error) {
	f.Side, f.K, f.Per, f.Order = d.side.String(), d.k, d.scope.String(), d.order
	f.Provenance = f.computed(ctx)
	return f.subject.describe(ctx, &f.Provenance, d.wantsJSON())
}

// found is the JSON result of discover.
type found struct {
	Schema       string                `json:"schema"`
	Provenance   metrics.Provenance    `json:"provenance"`
	Side         string                `json:"side"`
	K            int                   `json:"k"`
	Per          string                `json:"per"`
	Order        string                `json:"order"`
	Restrictions *metrics.Restrictions `json:"restrictions,omitempty"`
	Triples      []foundTriple         `json:"triples"`

	*session       `json:"-"`
	rank.Discovery `json:"-"`
	labels         map[string]string
	calibration    *classify.Calibration // nil without --calibration
	ctx            context.Context       // context of the iterator that records returns
	complete       bool                  // Triples has all triples
	count          int                   // triples found so far, also before a resumption
	err            error                 // error of the search
}

// foundTriple is an unknown triple.
type foundTriple struct {
	Head     string `json:"head"`
	Relation string `json:"relation"`
	Tail     string `json:"tail"`
	// The following fields are the readable names of the head, the relation and the tail, from
	// labels.tsv.
	HeadLabel     string `json:"head_label,omitempty"`
	RelationLabel string `json:"relation_label,omitempty"`
	TailLabel     string `json:"tail_label,omitempty"`
	// Rank is the position among the unknown answers to the query.
	Rank  int      `json:"rank"`
	Score float64  `json:"score"`
	Z     *float64 `json:"z,omitempty"`
	// Probability is nil without a calibration.
	Probability *float64 `json:"probability,omitempty"`
}

// search returns the triples as the search finds them. After the iteration, f.err is the error that
// ended it.
func (f *found) search(ctx context.Context) iter.Seq[foundTriple] {
	return func(yield func(foundTriple) bool) {
		stopped := errors.New("the reader of the triples has stopped")
		err := rank.Discover(ctx, f.model, f.index, f.Discovery, f.options, func(t rank.Discovered) error {
			f.count++
			if !yield(f.named(t)) {
				return stopped
			}
			return nil
		})
		f.meter.clear()
		if err == nil {
			err = f.verify(ctx)
		}
		if f.err = err; err == stopped {
			f.err = nil // the caller knows why
			return
		}
		if err == nil {
			printLine(f.log, "found %s", text.Plural(f.count, "triple"))
		}
	}
}

// named returns a triple with its labels.
func (f *found) named(t rank.Discovered) foundTriple {
	g := f.graph
	n := foundTriple{
		Head: g.Entities.Label(t.Triple.Head), Relation: g.Relations.Label(t.Triple.Relation),
		Tail: g.Entities.Label(t.Triple.Tail), Rank: t.Rank, Score: f.model.Score(t.Score),
	}
	n.HeadLabel, n.RelationLabel, n.TailLabel = f.labels[n.Head], f.labels[n.Relation], f.labels[n.Tail]
	if f.Standardise {
		z := t.Z // a pointer to t.Z would keep all of t
		n.Z = &z
	}
	if f.calibration != nil {
		p := f.calibration.Probability(n.Score)
		n.Probability = &p
	}
	return n
}

// in sets the context that the method records uses, and returns f.
func (f *found) in(ctx context.Context) *found {
	f.ctx = ctx
	return f
}

// columns returns the columns of the file of --out.
func (f *found) columns() []parquetfile.Column {
	columns := []parquetfile.Column{
		{Name: "head", Type: reflect.String}, {Name: "relation", Type: reflect.String},
		{Name: "tail", Type: reflect.String}, {Name: "rank", Type: reflect.Int32},
		{Name: "score", Type: reflect.Float64},
	}
	if f.Standardise {
		columns = append(columns, parquetfile.Column{Name: "z", Type: reflect.Float64})
	}
	if f.calibration != nil {
		columns = append(columns, parquetfile.Column{Name: "probability", Type: reflect.Float64})
	}
	if f.labels != nil {
		for _, name := range labelColumns {
			columns = append(columns, parquetfile.Column{Name: name, Type: reflect.String})
		}
	}
	return columns
}

// labelColumns names the columns with the readable labels of a triple. Outputs have them if the data
// set has labels.
var labelColumns = []string{"head_label", "relation_label", "tail_label"}

// header returns the names of the columns.
func (f *found) header() []string {
	var header []string
	for _, c := range f.columns() {
		header = append(header, c.Name)
	}
	return header
}

func (f *found) tables() []*text.Table {
	t := text.NewTable(4, 5, 6, 7)
	t.Caption = fmt.Sprintf("Unknown triples of %s that %s finds most plausible", f.graph.Name,
		f.Provenance.Checkpoint.ModelText())
	if f.Per != rank.PerGraph.String() {
		t.Caption += fmt.Sprintf(", at most %d of each %s", f.K, f.Per)
	}
	question, order := "(h, r, ?)", "score"
	if f.Discovery.Side == kg.Head {
		question = "(?, r, t)"
	}
	if f.Standardise {
		order = "z-score"
	}
	t.Caption += fmt.Sprintf(". Answers to %s, by %s.", question, order)
	t.Caption = strings.Join(append([]string{t.Caption}, f.protocol()...), " ")
	header := []any{"head", "relation", "tail", "rank", "score"}
	if f.Standardise {
		header = append(header, "z")
	}
	if f.calibration != nil {
		header = append(header, "probability")
	}
	t.AppendHeader(header)
	for _, x := range f.Triples {
		row := []any{
			withLabel(x.Head, f.labels), withLabel(x.Relation, f.labels), withLabel(x.Tail, f.labels), x.Rank,
			strconv.FormatFloat(x.Score, 'g', 7, 64),
		}
		if x.Z != nil {
			row = append(row, strconv.FormatFloat(*x.Z, 'f', 2, 64))
		}
		if x.Probability != nil {
			row = append(row, strconv.FormatFloat(*x.Probability, 'f', 4, 64))
		}
		t.AppendRow(row)
	}
	return []*text.Table{t}
}

// remarks names the weights of the score, if it has any, and the entities that the triples are among.
func (f *found) remarks() []string {
	return append(weightRemark(f.Provenance.Checkpoint), f.protocol()...)
}

// protocol says which entities the triples are among.
func (f *found) protocol() []string {
	if f.Restrictions == nil {
		return nil
	}
	return strings.Split(text.Wrap(f.Restrictions.Sentence(rank.BothSides, f.Provenance.Data.Entities)), "\n")
}

func (f *found) records() (header []string, rows iter.Seq[[]string]) {
	triples := slices.Values(f.Triples)
	if !f.complete {
		triples = f.search(f.ctx)
	}
	return f.header(), func(yield func([]string) bool) {
		for x := range triples {
			if !yield(f.fields(x)) {
				return
			}
		}
	}
}

// fields returns the values of a triple in the columns that header names, with all digits.
func (f *found) fields(x foundTriple) []string {
	row := []string{x.Head, x.Relation, x.Tail, strconv.Itoa(x.Rank), strconv.FormatFloat(x.Score, 'g', -1, 64)}
	for _, value := range []*float64{x.Z, x.Probability} {
		if value != nil {
			row = append(row, strconv.FormatFloat(*value, 'g', -1, 64))
		}
	}
	if f.labels != nil {
		row = append(row, x.HeadLabel, x.RelationLabel, x.TailLabel)
	}
	return row
}
