package main

import (
	"context"
	"fmt"
	"io"
	"os"
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

// The kinds of checkpoint that init makes.
const (
	randomKind    = "random"
	clusteredKind = "clustered"
)

func newInitCommand() *cobra.Command {
	i := &initialisation{kind: randomKind}
	cmd := &cobra.Command{
		Use:   "init --model NAME --dim D --data NAME --out CKPT",
		Short: "Make a checkpoint to start from, or to measure speed with",
		Long: `Make a checkpoint with the entities and relations of a data set.

  --kind random     the parameters with which training begins
  --kind clustered  for measurements of speed: ranks true answers about as a trained checkpoint
                    does, well but with many close candidates. Entities lie in groups, fitted to
                    the triples of all splits, the test split included: its metrics say nothing
                    about the model.

The same seed makes the same random checkpoint on every machine, and the same clustered one on
machines of one tier (see mquine info), for any number of threads.

A clustered checkpoint is ranked on the test split when it is made, and the command prints the
median rank (both sides, filter all, realistic ties) and how many pairs of a true answer and a
candidate float32 and float64 left undecided.`,
		Example: `  mquine init --model mquine --dim 38 --data fb15k-237 --out ./start
  mquine init --model mquine --dim 18 --data ./yago-shape --out ./fast --kind clustered`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return i.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	addChoice(cmd, &i.model, "model", "`model`: "+strings.Join(model.Names(), ", "), model.Names()...)
	markRequired(cmd, "model")
	flags.Var(positive{n: &i.dim}, "dim", "`dimension` d of the model; for complex and rotate, of complex numbers")
	markRequired(cmd, "dim")
	i.hyper = addHyper(cmd)
	addData(cmd, &i.data)
	flags.StringVar(&i.out, "out", "", "`folder` to write, which must not exist")
	markRequired(cmd, "out")
	must(cmd.MarkFlagDirname("out"))
	flags.Uint64Var(&i.seed, "seed", 1, "`seed` of the random choices")
	addChoice(cmd, &i.kind, "kind", "`kind` of checkpoint: random or clustered", randomKind, clusteredKind)
	i.compute.add(cmd)
	return cmd
}

// initialisation makes a checkpoint for a data set.
type initialisation struct {
	compute
	model, data, out, kind string
	dim                    int
	hyper                  func() map[string]float64
	seed                   uint64
}

func (i *initialisation) run(ctx context.Context, out, log io.Writer) error {
	if _, err := os.Lstat(i.out); err == nil {
		return fmt.Errorf("%s exists already: remove it or choose another folder", i.out)
	}
	backend, err := i.compute.resolve()
	if err != nil {
		return err
	}
	g, err := openData(ctx, i.data, log)
	if err != nil {
		return err
	}
	var test []kg.Triple
	if i.kind == clusteredKind { // which is going to be ranked
		if test, err = triplesToRank(g, kg.Test, rank.All); err != nil {
			return err
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
	fmt.Fprintln(log, "note: it is fitted to all splits, test included: use it to measure speed, never to judge a model")
	return i.rank(ctx, out, log, m, g, test, options)
}

func (i *initialisation) make(ctx context.Context, log io.Writer, g *kg.Graph, b *kernel.Backend) (model.Model, error) {
	c := model.Config{
		Model: i.model, Dim: i.dim, Entities: g.Entities.Len(), Relations: g.Relations.Len(), Hyper: i.hyper(),
	}
	if i.kind == randomKind {
		return train.Random(ctx, c, i.seed)
	}
	printLine(log, "fitting %s, d = %d, to the triples of %s", c.Model, c.Dim, g.Name)
	meter := newMeter(log)
	defer meter.clear()
	return clustered.New(ctx, c, g, i.seed, train.Machine{Backend: b, Threads: i.threads, Progress: meter.fitting()})
}

// rank prints what ranking the checkpoint on the test split is like.
func (i *initialisation) rank(
	ctx context.Context, out, log io.Writer, m model.Model, g *kg.Graph, test []kg.Triple, o rank.Options,
) error {
	meter := newMeter(log)
	o.Progress = meter.ranking
	ranking, err := rank.Run(ctx, m, kg.NewIndex(g), test, o)
	meter.clear()
	if err != nil {
		return err
	}
	result := metrics.Measure(ranking.Ranks, rank.BothSides, rank.All, rank.Realistic, nil)
	left := ranking.Stats.Rescored
	_, err = fmt.Fprintf(out, `median rank  %s of %s candidates (test split, both sides, filter all, realistic ties)
undecided    %s pairs after the %s screen, %s after float64, of %s queries
`, strconv.FormatFloat(float64(result.Median), 'f', -1, 64), text.Comma(m.Config().Entities),
		text.Comma(left.Float64), ranking.Stats.Screen, text.Comma(left.Reference), text.Comma(ranking.Stats.Queries))
	return err
}
