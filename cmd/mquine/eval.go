package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/rank"
)

func newEvalCommand(start time.Time) *cobra.Command {
	e := newEvaluation(start)
	cmd := &cobra.Command{
		Use:   "eval CKPT... --data NAME",
		Short: "Evaluate a checkpoint on a split of a data set",
		Long: `Compute the exact ranks of the true answers in a split of a data set among all
entities, or among some of them (--candidates, --tail-negatives). CKPT is a
checkpoint of mquine, the folder of a training run, or the folder of another
tool, such as PyKEEN, LibKGE, DGL-KE or OpenKE (see "mquine import --help").

Every triple (h, r, t) of the split makes two queries: (h, r, ?) on side tail
and (?, r, t) on side head. The rank of the true answer is 1 + the number of
candidates with a better score, apart from ties (--ties).
The table shows, over all queries:

  MRR        mean reciprocal rank: the mean of 1/rank
  MR         mean rank
  Hits@k     share of ranks up to k
--wide adds:
  median     median rank
  GMR        geometric mean rank
  AMR        adjusted mean rank: mean rank / mean rank of a random ranking.
             Lower is better
  AMRI       adjusted mean rank index: 0 is chance, 1 is perfect
  MRR limit  the highest MRR that a ranking can have. Under the filters none and
             train, other true answers compete with the true answer
  exchangeable
             the limit if a ranking cannot distinguish these answers from the
             true answer

--side relation ranks the relation of each triple among all relations instead,
as the answer to (h, ?, t). Models with reciprocal relations score (h, ?, t) as
tail queries.

--filter: which known answers to leave out of the candidates. Every filter keeps
the true answer itself.
  none   no answers ("raw")
  train  answers in the train split
  all    answers in the train, valid and test splits ("filtered")

--ties: the rank of the true answer among candidates with exactly its score.
  optimistic   best
  pessimistic  worst
  realistic    mean of the two
  rounded      mean of the two, rounded up

--protocol: how to evaluate. The protocols of tools rank both sides, under
filter all (ogb: none). For tools that print only the mean over both sides
(rotate, dglke, ogb), so does eval. Do not combine protocols with --side,
--filter or --ties.
  full    the protocol that --side, --filter and --ties describe
  rotate  the RotatE repository: optimistic ties
  kbc     kbc and KGE-DURA: pessimistic ties
  dglke   DGL-KE: pessimistic ties
  libkge  LibKGE: rounded ties, with its tolerance of 1e-05 + 0.0001*|score|
  pykeen  PyKEEN: realistic ties
  openke  OpenKE: optimistic ties
  ogb     OGB: realistic ties among the given negatives, under filter none
  paper   the MQuinE paper: only tails, under filter all, realistic ties
With the protocol of a tool, a note below the table says for how many queries
the tool's own ranks may differ, and why.

` + candidatesHelp + `If the true answer to a query is not one of its candidates, the command stops.
With --skip-excluded, it leaves out such queries and prints their number. AMR
and AMRI relate the mean rank to a random ranking of the candidates.

` + negativesHelp + `
` + sampleHelp + `
` + ensembleHelp + `
--by: also show the metrics of groups of queries, under the last filter.
  relation  by relation
  entity    by the true answer
  category  by relation category: 1-1, 1-N, N-1 or N-N. N means more than 1.5
            heads per tail, or tails per head, on average in train. A relation
            without training triples counts as 1-1
  z-case    by exposure to the Z-paradox: easy, neutral or hard (see
            "mquine z stats")
  degree    by the number of training triples of the answer: 0, 1, 2-3, 4-7, …

Tables list at most --top groups: categories, Z-cases and degrees in their own
order, relations and entities the largest first. "--sort queries" lists the
largest groups first, and "--sort mrr" the best and the worst. "--min 20" lists
only groups of at least 20 queries.

--ci-by: what the 95% intervals resample. Triples with a common query or entity
have similar ranks. For intervals that hold for other queries or entities,
resample whole clusters of triples.
  triple    single triples. Intervals hold for other triples of the same graph
  query     the triples of a query. Each triple belongs to the larger of its
            two queries
  entity    the triples of an entity. Each triple belongs to the more frequent
            of its two entities
  relation  the triples of a relation
An interval needs at least 10 effective clusters. "[too few: 4.0]" means that
the clusters are worth only 4 clusters of equal size.

--format csv prints a line for each result and group, json prints what --json
writes, and latex prints a table with one row for the model, under the last
filter. csv and json refuse --percent, --no-ci, --wide and --explain.

If the folder of the data set has a file labels.tsv with lines
identifier<TAB>label, tables show the labels beside the identifiers.

--ranks writes a line for each query: side, head, relation, tail, and for each
filter the numbers of other candidates with a better and with an equal score.
--json writes all metrics, the distribution of the ranks, the ten worst and best
queries, times, the machine and checksums. --all-ties adds the other tie rules
to the table of all queries, to csv and to --json.
Files are written atomically. If a file is "-", it goes to standard output, and
the table to standard error.

` + loadingHelp,
		Example: `  mquine eval ./checkpoint --data fb15k-237
  mquine eval ./my-pykeen-model --data umls --protocol pykeen
  mquine eval ./checkpoint --data ./my-graph --split valid --hits 1,10
  mquine eval ./checkpoint --data fb15k-237 --by z-case,degree
  mquine eval ./checkpoint --data umls --by relation --sort mrr --min 20
  mquine eval ./complex ./mquine --ensemble fit --data codex-s
  mquine eval ./checkpoint --data ./wikikg2 --protocol ogb \
      --tail-negatives tail_neg.npy --head-negatives head_neg.npy
  mquine eval ./checkpoint --data umls --format latex --percent
  mquine eval ./checkpoint --data wn18rr --json e.json --ranks e.tsv`,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := e.follow(cmd.Flags()); err != nil {
				return err
			}
			return cmp.Or(e.checkGroups(cmd), e.restriction.check(), e.checkRestriction(), e.gpus.check(e.compute),
				e.checkRelations(), e.checkSample(cmd.Flags().Changed("seed")), e.checkNegatives(), e.checkTables(cmd))
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	e.inputs.add(cmd)
	e.inputs.addEnsemble(cmd)
	addChoice(cmd, &e.protocol, "protocol", "evaluation protocol: full, or the protocol of a tool", protocolNames()...)
	acceptFormer(cmd, map[string]string{"filters": "filter"})
	addChoices(cmd, &e.filters, "filter", "rank under these filters, separated by commas: none, train, all",
		rank.None, rank.Train, rank.All)
	e.setup.add(cmd)
	e.restriction.add(cmd)
	flags.BoolVar(&e.skip, "skip-excluded", false,
		"leave out queries whose true answer is not a candidate, instead of failing")
	inGroup(cmd, candidateFlags, "skip-excluded")
	e.negatives.add(cmd)
	e.sample.add(cmd)
	e.compute.addWithDevices(cmd, &e.gpus)
	addChoice(cmd, &e.screen, "screen",
		"format of the first stage for dot products, L1 distances, group norms and phases on the processor: auto, "+
			"float32, int8 (not for group norms) or int16 (not for L1 distances and phases); affects only the speed",
		rank.AutoScreen, rank.Float32Screen, rank.Int8Screen, rank.Int16Screen)
	flags.BoolVar(&e.peak, "peak", false,
		"measure the multiply-add rate of the processor and print the share of it that the ranking reached")
	inGroup(cmd, protocolFlags, "protocol", "filter")
	inGroup(cmd, machineFlags, "screen", "peak")
	e.tableFlags.add(cmd, "usual, queries, mrr (highest first) or name")
	e.printed.add(cmd)
	flags.BoolVar(&e.allTies, "all-ties", false, "show every tie rule, not only the rule of --ties")
	addOutput(cmd, &e.ranksFile, "ranks", linesFormat,
		"write the ranks of all queries, tab-separated, to `FILE` (- is standard output)")
	return cmd
}

// checkTables refuses flags that would not change the tables.
func (e *evaluation) checkTables(cmd *cobra.Command) error {
	if e.peak && (e.format == text.FormatCSV || e.format == text.FormatLaTeX) && e.jsonFile == "" {
		return fmt.Errorf("--format %v does not show what --peak measures: add --json FILE, or leave out --peak",
			e.format)
	}
	if e.allTies && e.format == text.FormatLaTeX && e.jsonFile == "" {
		return fmt.Errorf("--all-ties does not apply to --format %v: add --json FILE, or leave out one of them",
			e.format)
	}
	return e.tableFlags.check(cmd, e.format)
}
