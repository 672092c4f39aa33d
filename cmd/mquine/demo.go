package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/synth"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"
)

func newDemoCommand(start time.Time) *cobra.Command {
	var keep string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Train a model on a toy graph and rank its test split",
		Long: `Train a model on a toy graph and rank its test split, without a download. The
demo generates a small graph of families and films, trains MQuinE on its train
split and ranks its test split, as "mquine train" and "mquine eval" do.

The demo removes the graph and the checkpoint at the end. --keep keeps them for
other commands.`,
		Example: `  mquine demo
  mquine demo --keep ./try
  mquine predict ./try/checkpoint --data ./try/families \
    --head film_000 --relation has_genre`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), keep, start)
		},
	}
	cmd.Flags().StringVar(&keep, "keep", "", "keep the graph and the checkpoint in `DIR`")
	must(cmd.MarkFlagDirname("keep"))
	return cmd
}

// The graph and the model of the demo.
const (
	demoData = "families"
	demoDim  = 16
	demoSeed = 1
)

func demo(ctx context.Context, out, log io.Writer, keep string, start time.Time) error {
	dir := keep
	if dir == "" {
		temporary, err := atomicfile.TemporaryFolder(os.TempDir(), "mquine-demo")
		if err != nil {
			return err
		}
		defer temporary.Remove()
		dir = temporary.Path
	}
	e := newEvaluation(start)
	e.data, e.checkpoint = filepath.Join(dir, demoData), filepath.Join(dir, "checkpoint")
	if err := errors.Join(checkNew(e.data), checkNew(e.checkpoint)); err != nil {
		return err
	}
	if err := makeDemo(ctx, log, e); err != nil {
		return err
	}
	if err := e.run(ctx, out, log); err != nil {
		return err
	}
	if keep != "" {
		printLine(log, "kept the graph in %s and the checkpoint in %s", e.data, e.checkpoint)
	}
	return nil
}

// makeDemo generates the data set and trains the checkpoint that e ranks. It writes neither until
// the training is done, so that the user can repeat an interrupted demo.
func makeDemo(ctx context.Context, log io.Writer, e *evaluation) error {
	g, _, err := synth.Families(ctx, synth.Config{Seed: demoSeed})
	if err != nil {
		return err
	}
	g.Name = demoData
	fmt.Fprintf(log, "made %s: %s, %s training triples\n",
		demoData, sizes(g.Entities.Len(), g.Relations.Len()), text.Comma(len(g.Splits[kg.Train])))

	backend, err := e.compute.resolve()
	if err != nil {
		return err
	}
	e.backend = backend.Tier.String() // the processor finishes before a GPU is ready
	start, c := time.Now(), demoConfig()
	m, err := trainDemo(ctx, log, c, g, train.Machine{Backend: backend, Threads: e.threads})
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "trained %s, d = %d, in %.1f s\n", c.Model, c.Dim, time.Since(start).Seconds())
	if err := kg.Write(ctx, e.data, g); err != nil {
		return err
	}
	err = checkpoint.Save(ctx, e.checkpoint, m, g.Entities, g.Relations, map[string]string{"dataset": demoData})
	if err != nil {
		_ = os.RemoveAll(e.data) // the error of Save matters more
	}
	return err
}

// demoConfig returns a recipe for a few thousand triples.
func demoConfig() recipe.Recipe {
	c := recipe.Default()
	c.Dim, c.Seed, c.Epochs, c.Batch = demoDim, demoSeed, 12, 512
	c.LearningRate, c.Decay = 0.03, recipe.LinearDecay
	return c
}

func trainDemo(ctx context.Context, log io.Writer, c recipe.Recipe, g *kg.Graph, m train.Machine) (model.Model, error) {
	meter := newMeter(log)
	defer meter.clear()
	m.Progress = meter.epochs("training")
	t, err := train.NewTrainer(ctx, c, g, m)
	if err != nil {
		return nil, err
	}
	for t.Done() < c.Epochs {
		if _, err := t.Epoch(ctx); err != nil {
			return nil, err
		}
	}
	return t.Model(), nil
}
