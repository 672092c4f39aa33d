package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/zpattern"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
)

// comparison asks for the rankings of several checkpoints side by side.
type comparison struct {
	compute
	models     []string
	data       string
	split      kg.Split
	sides      rank.Sides
	filter     rank.Filter
	ties       rank.Ties
	hits       []int
	by         []string
	convention zpattern.Convention
	ciBy       metrics.Clustering
	changed    int
	format     metrics.TableFormat
	jsonFile   string
}

func newCompareCommand() *cobra.Command {
	c := comparison{
		split: kg.Test, sides: rank.BothSides, filter: rank.All, ties: rank.Realistic, hits: []int{1, 3, 10},
		ciBy: metrics.ByQuery, changed: 10,
	}
	c.compute.setDefaults()
	cmd := &cobra.Command{
		Use:   "compare CKPT CKPT... --data NAME",
		Short: "Rank several checkpoints and compare them",
		Long: `Rank several checkpoints on the same queries, exactly and in full, and compare each of them with
the first, the base, query by query.

Differences are other − base. Their intervals are 95% bootstrap intervals over resamples of the
triples, in whole clusters with all their ranks; p is that of a two-sided permutation test, which
exchanges the ranks of a cluster between the two checkpoints by the toss of a coin, and is not
adjusted for the number of tests. --ci-by says what a cluster is, for both: a triple, or the
triples of a query, an entity or a relation. [too few: 4.0] in place of an interval says that the
clusters are worth 4 of equal size; an interval needs 10. Wins are the queries that the other
checkpoint ranks better than the base, losses the queries that it ranks worse. The list shows the
queries whose 1/rank changed most.

A file that mquine eval --ranks wrote can stand in for its checkpoint: its ranks are read, not
computed again. It must hold the queries of the split, and --filter must be one of its filters.

See mquine eval for queries, filters, ties, --by and --ci-by. --format csv has a line for each
difference and no changed queries, with names as they are: import them into a spreadsheet as text.
--json has everything. With --json - the JSON goes to standard output, and the tables to standard
error.`,
		Example: `  mquine compare ./rotate ./mquine --data fb15k-237
  mquine compare ./a ./b ./c --data wn18rr --by z-case,degree --format latex
  mquine compare ./a ./b --data ./my-graph --sides tail --json compare.json
  mquine compare ranks-a.tsv ranks-b.tsv --data fb15k-237`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("give two checkpoints or more, or ranks files of them")
			}
			return nil
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
			// What took long to compute is written even if the tables cannot be printed, and the other way round.
			if c.jsonFile != "" {
				err = writeJSON(cmd, c.jsonFile, report)
			}
			if c.format == metrics.CSV {
				out = text.Exact(out)
			}
			if unprinted := report.Write(out, c.format); unprinted != nil {
				err = errors.Join(err, fmt.Errorf("cannot print the tables: %w", text.Cause(unprinted)))
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	addData(cmd, &c.data)
	addChoice(cmd, &c.split, "split", "`split` whose triples are the queries", kg.Train, kg.Valid, kg.Test)
	addChoice(cmd, &c.sides, "sides", "`side` to ask for: tail, head or both", rank.TailSide, rank.HeadSide, rank.BothSides)
	addChoice(cmd, &c.filter, "filter", "`filter` to rank under: none, train or all", rank.None, rank.Train, rank.All)
	addChoice(cmd, &c.ties, "ties", "tie `rule`: optimistic, pessimistic or realistic", rank.Optimistic, rank.Pessimistic, rank.Realistic)
	flags.Var(cutoffs{&c.hits}, "hits", "the `k` of Hits@k")
	addChoices(cmd, &c.by, "by", "also by `key`: "+strings.Join(metrics.KeyNames(), ", "), metrics.KeyNames()...)
	addConvention(cmd, &c.convention)
	addCIBy(cmd, &c.ciBy)
	flags.Var(positive{n: &c.changed}, "changed", "`number` of queries to list that changed most")
	addChoice(cmd, &c.format, "format", "`format` of the tables: table, md, latex or csv",
		metrics.PlainText, metrics.Markdown, metrics.LaTeX, metrics.CSV)
	jsonFlag(cmd, &c.jsonFile)
	c.compute.add(cmd)
	return cmd
}

// run ranks the checkpoints one after another, and compares them.
func (c *comparison) run(ctx context.Context, log io.Writer) (*metrics.ComparisonReport, error) {
	var (
		all   []metrics.ComparedCheckpoint
		first *competitor
		keys  []metrics.Key
	)
	for i, name := range shortNames(c.models) {
		next, err := c.open(ctx, log, i, name)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			first = next
			keys, err = metrics.NewKeys(ctx, first.graph, c.by, metrics.KeyOptions{
				Triples: first.graph.Splits[c.split], Sides: c.sides, Convention: c.convention, Threads: c.threads,
			})
			if err != nil {
				return nil, err
			}
		}
		if a, b := first.candidates, next.candidates; a != b && a > 0 && b > 0 {
			printLine(log, "note: %s ranks among %s candidates and %s among %s, which is not quite the same task",
				first.Name, text.Comma(a), name, text.Comma(b))
		}
		all = append(all, next.ComparedCheckpoint)
	}
	return metrics.CompareAll(ctx, first.graph, c.split, all, metrics.CompareOptions{
		Sides: c.sides, Filter: c.filter, Ties: c.ties, Hits: c.hits, Keys: keys, Changed: c.changed,
		CIBy: c.ciBy, Threads: c.threads,
	})
}

// competitor is a checkpoint with its ranks.
type competitor struct {
	metrics.ComparedCheckpoint
	// graph is in the identifiers of the ranks.
	graph *kg.Graph
	// candidates counts the entities that compete, 0 if a ranks file does not tell.
	candidates int
}

// open ranks the checkpoint of the given number, or reads a ranks file in its place.
func (c *comparison) open(ctx context.Context, log io.Writer, number int, name string) (*competitor, error) {
	if info, err := os.Stat(c.models[number]); err == nil && !info.IsDir() {
		return c.read(ctx, log, number, name)
	}
	return c.rank(ctx, log, number, name)
}

// read takes the ranks of a file that eval wrote.
func (c *comparison) read(ctx context.Context, log io.Writer, number int, name string) (*competitor, error) {
	path := c.models[number]
	g, err := openData(ctx, c.data, log)
	if err != nil {
		return nil, err
	}
	if number == 0 {
		writeNotes(log, g.Notes)
	}
	triples, err := g.Triples(c.split)
	if err != nil {
		return nil, err
	}
	file, err := input.Open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the ranks of %s: %w", path, text.Cause(err))
	}
	defer file.Close()
	ranks, filters, err := metrics.ReadRanks(path, file, g.Entities, g.Relations)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(filters, c.filter) {
		return nil, fmt.Errorf("%s has no ranks under filter %v: choose --filter %s",
			path, c.filter, strings.Join(names(filters), " or "))
	}
	if ranks, err = metrics.Align(ranks, triples, c.sides.List()); err != nil {
		return nil, fmt.Errorf("%s is not of the %v split of %s: %w", path, c.split, g.Name, err)
	}
	printLine(log, "read the ranks of %s from %s", text.Plural(len(ranks), "query"), path)
	return &competitor{metrics.ComparedCheckpoint{Name: name, Path: path, Ranks: ranks}, g, 0}, nil
}

// rank ranks a checkpoint.
func (c *comparison) rank(ctx context.Context, log io.Writer, number int, name string) (*competitor, error) {
	path := c.models[number]
	backend, err := c.compute.resolve()
	if err != nil {
		return nil, err
	}
	s, err := inputs{model: path, data: c.data}.open(ctx, log)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if number == 0 {
		s.writeNotes(log)
	}
	triples, err := triplesToRank(s.graph, c.split, c.filter)
	if err != nil {
		return nil, err
	}
	start, meter := time.Now(), newMeter(log)
	ranking, err := rank.Run(ctx, s.checkpoint.Model, kg.NewIndex(s.graph), triples, rank.Options{
		Sides: c.sides.List(), Backend: backend, Threads: c.threads, Progress: meter.ranking,
	})
	meter.clear()
	if err != nil {
		return nil, err
	}
	printLine(log, "ranked %s with %s in %s",
		text.Plural(len(ranking.Ranks), "query"), name, time.Since(start).Round(time.Millisecond))
	sum, err := s.checkpoint.SHA256(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.verify(ctx); err != nil {
		return nil, err
	}
	config := s.checkpoint.Model.Config()
	return &competitor{metrics.ComparedCheckpoint{
		Name: name, Path: path, Model: config.Model, Dim: config.Dim, SHA256: sum, Ranks: ranking.Ranks,
	}, s.graph, config.Entities}, nil
}

// shortNames returns the last parts of paths, or the paths where these are not all different.
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
