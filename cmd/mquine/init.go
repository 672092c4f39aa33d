package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/clustered"
)

// The kinds of checkpoint that init creates.
const (
	randomKind    = "random"
	clusteredKind = "clustered"
)

func newInitCommand() *cobra.Command {
	i := &initialisation{kind: randomKind, seed: 1}
	cmd := &cobra.Command{
		Use:   "init --model NAME --dim D --data NAME --out CKPT",
		Short: "Make an untrained or a synthetic checkpoint",
		Long: `Make a checkpoint with the entities and relations of a data set.

--kind: the parameters of the checkpoint.
  random     initial parameters, as in training
  clustered  synthetic parameters with the score distribution of a trained
             model, for benchmarks. They are fitted to all splits, including
             test, so their metrics say nothing about the model

The same seed gives the same checkpoint for any number of threads. Random
checkpoints are the same on every machine, and clustered checkpoints on machines
with the same instruction set (see "mquine doctor").

For a clustered checkpoint, the command also ranks the test split and prints the
median rank and the number of pairs that each stage left undecided.`,
		Example: `  mquine init --model mquine --dim 38 --data fb15k-237 --out ./start
  mquine init --model rotate --dim 500 --data umls --out ./fast --kind clustered`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return i.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	addChoice(cmd, &i.model, "model", "name of the model: "+strings.Join(model.Names(), ", "), model.Names()...)
	markRequired(cmd, "model")
	flags.Var(positive{n: &i.dim}, "dim",
		"dimension d of the embeddings, in the units of the model, such as complex numbers for rotate")
	markRequired(cmd, "dim")
	i.hyper = addHyper(cmd, model.Names())
	addData(cmd, &i.data)
	flags.StringVar(&i.out, "out", "", "new folder `CKPT` for the checkpoint")
	markRequired(cmd, "out")
	must(cmd.MarkFlagDirname("out"))
	flags.Var(seed{&i.seed}, "seed", "random seed")
	addChoice(cmd, &i.kind, "kind", "kind of checkpoint: random or clustered", randomKind, clusteredKind)
	i.compute.add(cmd)
	inGroup(cmd, modelFlags, "model", "dim", "seed", "kind")
	return cmd
}

// initialisation creates a checkpoint. It holds the flags of init.
type initialisation struct {
	compute
	model, data, out, kind string
	dim                    int
	hyper                  func() map[string]float64
	seed                   uint64
}

func (i *initialisation) run(ctx context.Context, out, log io.Writer) error {
	if err := checkNew(i.out); err != nil {
		return err
	}
	backend, err := i.compute.resolve()
	if err != nil {
		return err
	}
	g, err := openData(ctx, i.data, log)
	if err != nil {
		return err
	}
	test := g.Splits[kg.Test]
	if i.kind == clusteredKind { // it is fitted to all splits and ranks the test split
		for s := range kg.NumSplits {
			if !g.Has(s) {
				return fmt.Errorf("a clustered checkpoint needs the splits train, valid and test, and data set %s has "+
					"no %v split: choose a data set that has them, or --kind random", g.Name, s)
			}
		}
	}
	m, err := i.make(ctx, log, g, backend)
	if err != nil {
		return err
	}
	options := rank.Options{Backend: backend, Threads: i.threads}
	if i.kind == clusteredKind {
		if options, err = rank.Fit(ctx, m, len(test), options); err != nil {
			return err
		}
	}
	err = checkpoint.Save(ctx, i.out, m, g.Entities, g.Relations, map[string]string{
		"dataset": g.Name, "kind": i.kind, "seed": strconv.FormatUint(i.seed, 10),
	})
	if err != nil {
		return err
	}
	c := m.Config()
	printLine(log, "wrote %s: %s, d = %d, %s, %s", i.out, c.Model, c.Dim, sizes(c.Entities, c.Relations), i.kind)
	if i.kind != clusteredKind {
		return nil
	}
	printNote(log, "the checkpoint is fitted to all splits, including test: use it for benchmarks only")
	return i.rank(ctx, out, log, m, g, test, options)
}

// make creates the model.
func (i *initialisation) make(ctx context.Context, log io.Writer, g *kg.Graph, b *kernel.Backend) (model.Model, error) {
	c := model.Config{
		Model: i.model, Dim: i.dim, Entities: g.Entities.Len(), Relations: g.Relations.Len(), Hyper: i.hyper(),
	}
	if spec, err := model.Lookup(i.model); err == nil {
		c.Reciprocal = spec.TrainReciprocal
	}
	if i.kind == randomKind {
		return train.Random(ctx, c, i.seed)
	}
	printLine(log, "fitting %s, d = %d, to the triples of %s", c.Model, c.Dim, g.Name)
	meter := newMeter(log)
	defer meter.clear()
	machine := train.Machine{Backend: b, Threads: i.threads, Progress: meter.epochs("fitting")}
	return clustered.New(ctx, c, g, i.seed, machine)
}

// rank ranks the test split and prints the median rank and the numbers of undecided pairs.
func (i *initialisation) rank(
	ctx context.Context, out, log io.Writer, m model.Model, g *kg.Graph, test []kg.Triple, o rank.Options,
) error {
	index, err := kg.NewIndex(ctx, g)
	if err != nil {
		return err
	}
	meter := newMeter(log)
	o.Progress = meter.ranking
	ranking, err := rank.Run(ctx, m, index, test, o)
	meter.clear()
	if err != nil {
		return err
	}
	result := metrics.Measure(ranking.Ranks, rank.BothSides, rank.All, rank.Realistic, nil)
	_, err = fmt.Fprintln(out, text.Pairs([][2]string{
		{"median rank", fmt.Sprintf("%s of %s candidates (test split, both sides, filter all, realistic ties)",
			strconv.FormatFloat(float64(result.Median), 'f', -1, 64), text.Comma(m.Config().Entities))},
		{"undecided", fmt.Sprintf("%s (%s queries)", undecidedPairs(ranking.Stats), text.Comma(ranking.Stats.Queries))},
	}))
	return unprinted(err)
}
