package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
)

func newEvalCommand(start time.Time) *cobra.Command {
	e := newEvaluation(start)
	cmd := &cobra.Command{
		Use:   "eval --model CKPT --data NAME",
		Short: "Rank a checkpoint on a split of a data set",
		Long: `Rank a checkpoint on a split of a data set, exactly and in full.

Every triple (h, r, t) of the split makes two queries: (h, r, ?) on side tail and (?, r, t) on
side head. All entities of the checkpoint are candidates. The rank of the true answer is 1 + the
number of candidates that the model prefers to it, and the table has the means over all queries:
MRR of 1/rank, MR of the rank, GMR geometric, Hits@k the share of ranks up to k, AMR and AMRI the
mean rank set against chance.

  --filters  none   every candidate competes ("raw")
             train  other known answers do not, if train has them
             all    other known answers do not, if train, valid or test has them ("filtered")
  --ties     what becomes of candidates with exactly the score of the true answer: optimistic
             ranks it before them, pessimistic after them, realistic in their middle
  --protocol full    what --sides, --filters and --ties say
             rotate  that of the RotatE repository: both sides in one average, filter all,
                     optimistic ties; the three flags cannot be given beside it
  --by       also the metrics of groups of queries, under the last of the filters:
             relation  by relation
             category  by relation category (1-1, 1-N, N-1, N-N: N where train has more than 1.5
                       heads for a tail, or tails for a head, on average)
             z-case    by exposure to the Z-paradox: easy, neutral or hard (see mquine z stats)
             degree    by the number of training triples that have the answer: 0, 1, 2-3, 4-7, …
  --ci-by    what the 95% intervals resample. Triples with a query or an entity in common have
             similar ranks, so that the interval for other queries or entities like these
             resamples whole clusters of triples:
             triple    each triple alone, for other facts drawn from the same graph
             query     the triples of a query; each goes with the larger of its two queries
             entity    the triples of an entity; each goes with the one of its two in more triples
             relation  the triples of a relation
             [too few: 4.0] in place of an interval says that the clusters are worth 4 of equal
             size; an interval needs 10.

Ranks are exact: the order of two candidates is that of their scores in float64, so every
instruction set and every number of threads gives the same integers.

--ranks writes a line for each query: its side, head, relation and tail, and for each filter how
many other candidates score better than the true answer and how many the same. --json writes all
metrics, under every tie rule, with times and the machine. A file appears when it is whole. With
"-" as the file it goes to standard output, and the table to standard error.

--peak measures how fast the processor can multiply and add at all, before and after the ranking,
and tells what share of that the ranking reached.`,
		Example: `  mquine eval --model ./checkpoint --data fb15k-237
  mquine eval --model ./checkpoint --data ./my-graph --split valid --filters all --hits 1,10
  mquine eval --model ./checkpoint --data fb15k-237 --by z-case,degree
  mquine eval --model ./checkpoint --data wn18rr --by relation,category --json report.json --ranks ranks.tsv`,
		Args: noArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := e.follow(cmd.Flags()); err != nil {
				return err
			}
			return e.gpus.check(e.compute)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	e.inputs.add(cmd)
	addChoice(cmd, &e.split, "split", "`split` whose triples are the queries", kg.Train, kg.Valid, kg.Test)
	addChoice(cmd, &e.protocol, "protocol", "`protocol`: full or rotate", protocolNames()...)
	addChoice(cmd, &e.sides, "sides", "`side` to ask for: tail, head or both", rank.TailSide, rank.HeadSide, rank.BothSides)
	addChoices(cmd, &e.filters, "filters", "`filters` to rank under: none, train, all", rank.None, rank.Train, rank.All)
	addChoice(cmd, &e.ties, "ties", "tie `rule` of the table: optimistic, pessimistic or realistic", rank.Optimistic, rank.Pessimistic, rank.Realistic)
	flags.Var(cutoffs{&e.hits}, "hits", "the `k` of Hits@k")
	addChoices(cmd, &e.by, "by", "also by `key`: "+strings.Join(metrics.KeyNames(), ", "), metrics.KeyNames()...)
	addConvention(cmd, &e.convention)
	addCIBy(cmd, &e.ciBy)
	e.compute.addWithDevices(cmd, &e.gpus)
	addChoice(cmd, &e.screen, "screen", "arithmetic of the CPU's first stage for dot `products`: auto, float32, int8 or int16; it changes the speed and never a result",
		rank.AutoScreen, rank.Float32Screen, rank.Int8Screen, rank.Int16Screen)
	flags.BoolVar(&e.peak, "peak", false, "measure the share of the processor's peak")
	addOutput(cmd, &e.jsonFile, "json", "`file` for all results as JSON")
	addOutput(cmd, &e.ranksFile, "ranks", "`file` for the ranks of all queries, tab-separated")
	return cmd
}
