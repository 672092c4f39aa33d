package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
	format     tableFormat
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

See mquine eval for queries, filters, ties, --by and --ci-by. --format csv has a line for each
difference and no changed queries, with names as they are: import them into a spreadsheet as text.
--json has everything. With --json - the JSON goes to standard output, and the tables to standard
error.`,
		Example: `  mquine compare ./rotate ./mquine --data fb15k-237
  mquine compare ./a ./b ./c --data wn18rr --by z-case,degree --format latex
  mquine compare ./a ./b --data ./my-graph --sides tail --json compare.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("give the folders of two checkpoints or more")
			}
			return nil
		},
		Annotations: map[string]string{checkpointArgs: ""},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
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
			if unprinted := report.print(out, c.format); unprinted != nil {
				err = errors.Join(err, fmt.Errorf("cannot print the tables: %w", reason(unprinted)))
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
	addChoice(cmd, &c.format, "format", "`format` of the tables: table, md, latex or csv", plainTable, markdownTable, latexTable, csvTable)
	jsonFlag(cmd, &c.jsonFile)
	c.compute.add(cmd)
	return cmd
}

// compareReport is the result of `mquine compare` for machines.
type compareReport struct {
	Schema string      `json:"schema"`
	Data   string      `json:"data"`
	Split  kg.Split    `json:"split"`
	Filter rank.Filter `json:"filter"`
	Ties   rank.Ties   `json:"ties"`
	// CIBy is what intervals resample and permutations exchange. Reports that do not say did so
	// with triples.
	CIBy metrics.Clustering `json:"ci_by"`
	// ZConvention is the convention of the groups by z-case, if there are any.
	ZConvention string `json:"z_convention,omitempty"`
	// Checkpoints are in the order of the command line; the first is the base of Comparisons,
	// which has one for each of the others.
	Checkpoints []comparedCheckpoint `json:"checkpoints"`
	Comparisons []compared           `json:"comparisons"`
}

type comparedCheckpoint struct {
	// Name is what tables call the checkpoint.
	Name    string        `json:"name"`
	Path    string        `json:"path"`
	Model   string        `json:"model"`
	Dim     int           `json:"dim"`
	SHA256  string        `json:"checkpoint_sha256"`
	Results []metrics.Result `json:"results"`
}

type compared struct {
	Base    string          `json:"base"`
	Other   string          `json:"other"`
	Whole   []metrics.Contrast `json:"whole"`
	Groups  []metrics.Contrast `json:"groups"`
	Changed []changedQuery  `json:"changed"`
}

type changedQuery struct {
	Side      string  `json:"side"`
	Head      string  `json:"head"`
	Relation  string  `json:"relation"`
	Tail      string  `json:"tail"`
	BaseRank  float64 `json:"base_rank"`
	OtherRank float64 `json:"other_rank"`
}

func (c *comparison) run(ctx context.Context, log io.Writer) (*compareReport, error) {
	r := &compareReport{Schema: "mquine.compare/1", Split: c.split, Filter: c.filter, Ties: c.ties, CIBy: c.ciBy}
	if slices.Contains(c.by, "z-case") {
		r.ZConvention = c.convention.String()
	}
	var (
		base       []rank.Rank
		graph      *kg.Graph // in the base's identifiers
		keys       []metrics.Key
		candidates int
	)
	for i, name := range shortNames(c.models) {
		s, ranking, err := c.rank(ctx, log, i, name)
		if err != nil {
			return nil, err
		}
		config := s.checkpoint.Model.Config()
		sum, err := s.checkpoint.SHA256(ctx)
		if err == nil {
			err = s.verify(ctx)
		}
		s.close()
		if err != nil {
			return nil, err
		}
		results, _, err := metrics.Summarize(ctx, ranking.Ranks, metrics.SummaryOptions{
			Sides: c.sides, Filters: []rank.Filter{c.filter}, Hits: c.hits, CIBy: c.ciBy, Threads: c.threads,
		})
		if err != nil {
			return nil, err
		}
		r.Checkpoints = append(r.Checkpoints, comparedCheckpoint{
			Name: name, Path: c.models[i], Model: config.Model, Dim: config.Dim, SHA256: sum,
			Results: slices.DeleteFunc(results, func(res metrics.Result) bool { return res.Ties != c.ties }),
		})
		if i == 0 {
			base, graph, candidates = ranking.Ranks, s.graph, config.Entities
			r.Data = graph.Name
			keys, err = metrics.NewKeys(ctx, graph, c.by, metrics.KeyOptions{
				Triples: graph.Splits[c.split], Sides: c.sides, Convention: c.convention, Threads: c.threads,
			})
			if err != nil {
				return nil, err
			}
			continue
		}
		if config.Entities != candidates {
			printLine(log, "note: %s ranks among %s candidates and %s among %s, which is not quite the same task",
				r.Checkpoints[0].Name, comma(candidates), name, comma(config.Entities))
		}
		contrast, err := metrics.Compare(ctx, base, ranking.Ranks, metrics.CompareOptions{
			Sides: c.sides, Filter: c.filter, Ties: c.ties, Hits: c.hits, Keys: keys, Changed: c.changed,
			CIBy: c.ciBy, Threads: c.threads,
		})
		if err != nil {
			return nil, err
		}
		r.Comparisons = append(r.Comparisons, newCompared(graph, r.Checkpoints[0].Name, name, contrast))
	}
	return r, nil
}

// rank ranks the checkpoint of the given number; the caller closes the subject.
func (c *comparison) rank(ctx context.Context, log io.Writer, number int, name string) (*subject, *rank.Ranking, error) {
	backend, err := c.compute.resolve()
	if err != nil {
		return nil, nil, err
	}
	s, err := inputs{model: c.models[number], data: c.data}.open(ctx, log)
	if err != nil {
		return nil, nil, err
	}
	if number == 0 {
		s.writeNotes(log)
	}
	triples, err := triplesToRank(s.graph, c.split, []rank.Filter{c.filter})
	if err != nil {
		s.close()
		return nil, nil, err
	}
	start, meter := time.Now(), newMeter(log)
	ranking, err := rank.Run(ctx, s.checkpoint.Model, kg.NewIndex(s.graph), triples, rank.Options{
		Sides: c.sides.List(), Backend: backend, Threads: c.threads, Progress: meter.ranking,
	})
	meter.clear()
	if err != nil {
		s.close()
		return nil, nil, err
	}
	printLine(log, "ranked %s with %s in %s", plural(len(ranking.Ranks), "query"), name, time.Since(start).Round(time.Millisecond))
	return s, ranking, nil
}

func newCompared(g *kg.Graph, base, other string, c metrics.Comparison) compared {
	out := compared{Base: base, Other: other, Whole: c.Whole, Groups: c.Groups, Changed: []changedQuery{}}
	if out.Groups == nil {
		out.Groups = []metrics.Contrast{}
	}
	for _, q := range c.Changed {
		out.Changed = append(out.Changed, changedQuery{
			Side: q.Side.String(), BaseRank: q.Base, OtherRank: q.Other,
			Head: g.Entities.Label(q.Triple.Head), Relation: g.Relations.Label(q.Triple.Relation), Tail: g.Entities.Label(q.Triple.Tail),
		})
	}
	return out
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
