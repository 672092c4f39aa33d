package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/rank"
)

// comparison ranks several checkpoints and compares them. It holds the flags of compare.
type comparison struct {
	compute
	setup
	printed
	tableFlags
	models  []string
	data    string
	vocab   string
	skip    bool
	filter  rank.Filter
	changed int

	graph   *kg.Graph // the data set without the triples that skipUnknown leaves out; nil before readData
	whole   *kg.Graph // the data set as it was read; the same as graph, unless skipUnknown leaves out triples
	indexed *kg.Graph // graph with the identifiers of the last checkpoint
	index   *kg.Index // known answers with the same identifiers
}

func newCompareCommand() *cobra.Command {
	c := comparison{setup: newSetup(), printed: printed{diverted: true}, filter: rank.All, changed: 10}
	c.compute.setDefaults()
	cmd := &cobra.Command{
		Use:   "compare CKPT CKPT... --data NAME",
		Short: "Rank several checkpoints and compare them",
		Long: `Rank several checkpoints on the same queries, and compare each of them with the
first one, the base, query by query.

Differences are other − base, with 95% bootstrap intervals and p-values of a
two-sided permutation test. The bootstrap resamples whole clusters of triples;
--ci-by chooses the clusters. The test asks whether the two checkpoints are
exchangeable: it randomly swaps their ranks, cluster by cluster. The p-values
are not corrected for multiple testing. An interval needs at least 10 effective
clusters. "[too few: 4.0]" means that the clusters are worth only 4 clusters of
equal size.

Wins are the queries that the other checkpoint ranks better than the base,
losses the queries that it ranks worse. --changed lists the queries whose 1/rank
changed most.

In place of a checkpoint, you can give the file that "mquine eval --ranks" wrote
for it: compare reads the ranks instead of computing them again. The file must
hold ranks of exactly the triples of the split, under the filter that --filter
names. This is how to compare ensembles, ranks among restricted candidates and
the protocols of other tools, for which eval has flags. Files of "mquine eval
--skip-excluded" may lack queries, if all files lack the same ones. So may files
of "mquine eval --skip-unknown", if compare has --skip-unknown too.

"mquine eval --help" explains queries, filters, ties, --by and --ci-by.
In tables, the best value of a column stands out. --format latex prints a row
for each checkpoint, as in a paper. --format csv prints one line for each
difference, without the changed queries. Its names are not escaped: import them
into a spreadsheet as text. json prints what --json writes: everything. With
"--json -", the JSON goes to standard output and the tables to standard error.`,
		Example: `  mquine compare ./rotate ./mquine --data fb15k-237
  mquine compare ./a ./b ./c --data wn18rr --format latex --percent --no-ci
  mquine compare ./a ./b --data ./my-graph --side tail --json compare.json
  mquine compare ranks-a.tsv ranks-b.tsv --data fb15k-237
  mquine eval ./a ./b --ensemble fit --data umls --filter all --ranks ab.tsv
  mquine compare ./a ab.tsv --data umls`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("give at least two checkpoints, or their ranks files")
			}
			return nil
		},
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			return cmp.Or(c.checkGroups(cmd), c.checkChanged(cmd), c.tableFlags.check(cmd, c.format))
		},
		Annotations: map[string]string{checkpointArgs: ""},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c.models = args
			out := cmd.OutOrStdout()
			if c.jsonFile == "-" {
				out = cmd.ErrOrStderr()
			}
			report, err := c.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			// Ranking takes a long time, so print the tables even if the file cannot be
			// written.
			if c.jsonFile != "" {
				err = writeJSON(cmd, c.jsonFile, report)
			}
			if c.format == metrics.CSV || c.format == metrics.JSON {
				out = text.Exact(out)
			}
			return errors.Join(err, unprinted(report.Write(out, c.format, c.TableOptions)))
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		unknown := (*pflag.NotExistError)(nil)
		if errors.As(err, &unknown) && slices.Contains(rankedByEval, unknown.GetSpecifiedName()) {
			return fmt.Errorf("unknown flag %s: for ensembles, restricted candidates and protocols, write the ranks "+
				"with mquine eval --ranks FILE, and give compare the FILE in place of the checkpoint",
				dashed(unknown.GetSpecifiedName()))
		}
		return flagError(cmd, err)
	})
	flags := cmd.Flags()
	addVocabulary(cmd, &c.vocab)
	addData(cmd, &c.data)
	addSkipUnknown(cmd, &c.skip)
	addChoice(cmd, &c.filter, "filter", "rank under this filter: none, train or all", rank.None, rank.Train, rank.All)
	c.setup.add(cmd)
	flags.Var(natural{&c.changed}, "changed", "list the N queries that changed most; 0 leaves out the list")
	inGroup(cmd, protocolFlags, "filter")
	inGroup(cmd, outputFlags, "changed")
	c.tableFlags.add(cmd, "usual, queries, mrr (largest gain first) or name")
	c.printed.add(cmd)
	c.compute.add(cmd)
	return cmd
}

// checkChanged refuses to list changed queries if no output lists them.
func (c *comparison) checkChanged(cmd *cobra.Command) error {
	listed := c.format != metrics.LaTeX && c.format != metrics.CSV || c.jsonFile != ""
	if cmd.Flags().Changed("changed") && c.changed > 0 && !listed {
		return fmt.Errorf("--changed does not apply to --format %v: add --json FILE, or leave out one of them",
			c.format)
	}
	return nil
}

// run ranks the checkpoints one after another and compares them. Ranking takes a long time, so all
// paths are checked, and all ranks files are read, before the first checkpoint is ranked.
func (c *comparison) run(ctx context.Context, log io.Writer) (*metrics.ComparisonReport, error) {
	for _, path := range c.models {
		if isRanksFile(path) {
			continue
		}
		if err := recognise(ctx, path); err != nil {
			return nil, err
		}
	}
	for _, path := range c.models[1:] {
		if sameFile(c.models[0], path) {
			printNote(log, "%s is also the base, so it is compared with itself", path)
		}
	}
	if c.skip {
		if err := c.skipUnknown(ctx, log); err != nil {
			return nil, err
		}
	}
	short := shortNames(c.models)
	competitors := make([]*competitor, len(short))
	for i, path := range c.models {
		if !isRanksFile(path) {
			continue
		}
		var err error
		if competitors[i], err = c.read(ctx, log, i, short[i]); err != nil {
			return nil, err
		}
	}
	var (
		all  []metrics.ComparedCheckpoint
		keys []metrics.Key
	)
	for i, name := range short {
		var err error
		if competitors[i] == nil {
			if competitors[i], err = c.rank(ctx, log, i, name); err != nil {
				return nil, err
			}
		}
		first, next := competitors[0], competitors[i]
		if i == 0 {
			triples := first.graph.Splits[c.split]
			index := c.index
			if c.skip { // the index has more known answers than the graph
				index = nil
			}
			if keys, err = c.keys(ctx, first.graph, index, triples, c.threads); err != nil {
				return nil, err
			}
		}
		if err = c.checkComparable(log, first, next); err != nil {
			return nil, err
		}
		all = append(all, next.ComparedCheckpoint)
		if i > 0 {
			next.graph = nil // frees its memory
		}
	}
	c.graph, c.whole, c.indexed, c.index = nil, nil, nil, nil // frees what the report does not need
	first := competitors[0]
	meter := newMeter(log)
	defer meter.clear()
	report, err := metrics.CompareAll(ctx, first.graph, c.split, all, metrics.CompareOptions{
		Sides: c.sides, Filter: c.filter, Ties: c.ties, Hits: c.hits, Keys: keys, Changed: c.changed,
		CIBy: c.ciBy, Threads: c.threads, Progress: meter.steps("resampling"),
	})
	if err != nil {
		return nil, err
	}
	report.LeftOut = len(first.missing)
	report.AddLabels(first.labels)
	return report, c.describe(ctx, report, first.graph)
}

// checkComparable returns an error if the ranks of two competitors have different queries, tolerances or
// candidates. It prints a note if only the numbers of candidates are known.
func (c *comparison) checkComparable(log io.Writer, first, next *competitor) error {
	if !slices.Equal(first.missing, next.missing) {
		return fmt.Errorf("%s (%s) and %s (%s) have ranks of different queries, so they are not comparable: "+
			"rank both with mquine eval and the same candidates", first.Name,
			text.Plural(len(first.Ranks), "query"), next.Name, text.Plural(len(next.Ranks), "query"))
	}
	if first.Tolerance != next.Tolerance {
		return fmt.Errorf("%s and %s have ranks with different tolerances, so they are not comparable: "+
			"rank both with mquine eval under the same --protocol", first.Name, next.Name)
	}
	if a, b := first.Candidates, next.Candidates; a != b && a > 0 && b > 0 {
		printNote(log, "%s has %s candidates but %s has %s, so their ranks are not strictly comparable",
			first.Name, text.Comma(a), next.Name, text.Comma(b))
	} else if n := differentCandidates(first, next, c.filter); n > 0 {
		return fmt.Errorf("%s and %s have different candidates for %s, so their ranks are not comparable: "+
			"rank both with the same candidates", first.Name, next.Name, text.Plural(n, "query"))
	}
	if next.unidentified {
		printNote(log, "%s is a ranks file of an earlier version, which has only the numbers of candidates: "+
			"make sure that all files have the same candidates", next.Name)
	}
	return nil
}

// describe sets the provenance of a report about the data set g.
func (c *comparison) describe(ctx context.Context, report *metrics.ComparisonReport, g *kg.Graph) error {
	digest, err := g.SHA256(ctx)
	if err != nil {
		return err
	}
	backend, err := c.compute.resolve()
	if err != nil {
		return err
	}
	from := computedOn(ctx, backend.Tier.String(), c.threads, "")
	from.Data, from.Bootstrap = describedData(g, digest), report.Provenance.Bootstrap
	report.Provenance = from
	return nil
}

// competitor is a checkpoint with its ranks.
type competitor struct {
	metrics.ComparedCheckpoint
	// graph uses the same identifiers as the ranks. In the end, only the first competitor has it.
	graph *kg.Graph
	// missing contains the positions of the queries that a ranks file lacks (metrics.Align).
	missing []int
	// unidentified says that the candidates are restricted, but only their numbers are known.
	unidentified bool
	// labels holds the readable labels of the data set. Only the first competitor has them. They are
	// read before it is ranked, so that an error in their file costs no time.
	labels map[string]string
}

// readData reads the data set, once.
func (c *comparison) readData(ctx context.Context, log io.Writer) (_ *kg.Graph, err error) {
	if c.graph == nil {
		c.graph, err = openData(ctx, c.data, log)
		c.whole = c.graph
	}
	return c.graph, err
}

// skipUnknown reads the data set and leaves out the triples whose labels a checkpoint lacks, so that all
// checkpoints rank the same queries.
func (c *comparison) skipUnknown(ctx context.Context, log io.Writer) error {
	g, err := c.readData(ctx, log)
	if err != nil {
		return err
	}
	for _, path := range c.models {
		if isRanksFile(path) {
			continue
		}
		// rank opens the checkpoint again and prints the notes.
		opened, err := openCheckpoint(ctx, io.Discard, path, checkpoint.MissingVocabularies(c.vocab))
		if err != nil {
			return err
		}
		g, err = g.Restrict("checkpoint "+path, opened.Entities, opened.Relations)
		opened.Close()
		if err != nil {
			return err
		}
	}
	c.graph = g
	return nil
}

// buildIndex indexes the known answers of the data set that uses the identifiers of a checkpoint. If the
// checkpoint before has the same identifiers, both share the data set and the index. The known answers
// come from all triples whose labels this checkpoint has, even if another checkpoint lacks some: they are
// candidates here.
func (c *comparison) buildIndex(ctx context.Context, s *subject) (_ *kg.Index, err error) {
	same := func(a, b *kg.Vocabulary) bool { return slices.Equal(a.Labels(), b.Labels()) }
	if g := c.indexed; g != nil && same(g.Entities, s.graph.Entities) && same(g.Relations, s.graph.Relations) {
		s.graph = g
		return c.index, nil
	}
	c.index = nil // frees its memory
	c.indexed = s.graph
	known := s.graph
	if c.whole != c.graph {
		entities, relations := s.checkpoint.Entities, s.checkpoint.Relations
		if known, err = c.whole.Restrict(checkpointOwner, entities, relations); err == nil {
			known, err = known.Relabel(entities, relations)
		}
		if err != nil {
			return nil, err
		}
	}
	c.index, err = indexKnown(ctx, known)
	return c.index, err
}

// rank ranks a checkpoint.
func (c *comparison) rank(ctx context.Context, log io.Writer, number int, name string) (*competitor, error) {
	path := c.models[number]
	backend, err := c.compute.resolve()
	if err != nil {
		return nil, err
	}
	read := func(ctx context.Context) (*kg.Graph, error) { return c.readData(ctx, log) }
	s, err := inputs{checkpoint: path, vocabulary: c.vocab, several: true}.openFirst(ctx, log, read)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var labels map[string]string
	if number == 0 {
		s.writeNotes(log)
		if c.sides == rank.RelationSide {
			s.noteRelations(log)
		}
		if labels, err = kg.ReadLabels(ctx, s.graph.Dir); err != nil {
			return nil, err
		}
	}
	triples, err := triplesToRank(s.graph, c.split, c.filter)
	if err != nil {
		return nil, err
	}
	start, meter := time.Now(), newMeter(log)
	meter.task = fmt.Sprintf("checkpoint %d of %d", number+1, len(c.models))
	index, err := c.buildIndex(ctx, s)
	if err != nil {
		return nil, err
	}
	ranking, err := c.queries(ctx, s.model, index, triples, rank.Options{
		Backend: backend, Threads: c.threads, Progress: meter.ranking,
	})
	meter.clear()
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	printLine(log, "ranked %s with %s in %.2f s", text.Plural(len(ranking.Ranks), "query"), name,
		time.Since(start).Seconds())
	writeStatistics(details(log), ranking.Stats)
	sum, err := s.checkpoint.SHA256(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.verify(ctx); err != nil {
		return nil, err
	}
	config := s.checkpoint.Model.Config()
	candidates := config.Entities
	if c.sides == rank.RelationSide {
		candidates = config.Relations
	}
	described := describedCheckpoint(s.checkpoint, sum)
	described.Path = path // names a run if the user did
	return &competitor{
		ComparedCheckpoint: metrics.ComparedCheckpoint{
			Name: name, Checkpoint: described, Candidates: candidates, Ranks: ranking.Ranks,
		},
		graph: s.graph, labels: labels,
	}, nil
}

// queries ranks the queries of triples on the sides of the comparison.
func (c *comparison) queries(
	ctx context.Context, m model.Model, x *kg.Index, triples []kg.Triple, o rank.Options,
) (*rank.Ranking, error) {
	if c.sides == rank.RelationSide {
		return rank.Relations(ctx, m, x, triples, o)
	}
	o.Sides = c.sides.List()
	return rank.Run(ctx, m, x, triples, o)
}

// differentCandidates counts the queries that have different candidates in a and b, if the candidates of a
// or b were restricted. Only ranks files of restricted candidates have digests.
func differentCandidates(a, b *competitor, f rank.Filter) (n int) {
	if !a.Restricted && !b.Restricted {
		return 0
	}
	for i := range min(len(a.Ranks), len(b.Ranks)) {
		x, y := &a.Ranks[i], &b.Ranks[i]
		known := x.CandidatesDigest != 0 && y.CandidatesDigest != 0
		if x.Candidates[f] != y.Candidates[f] || known && x.CandidatesDigest != y.CandidatesDigest {
			n++
		}
	}
	return n
}

// shortNames returns the base names of paths, or the paths themselves if two base names are equal.
func shortNames(paths []string) []string {
	var short []string
	for _, p := range paths {
		name := filepath.Base(p)
		if slices.Contains(short, name) {
			return paths
		}
		short = append(short, name)
	}
	return short
}
