package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/synth"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/train"
)

func newDemoCommand(start time.Time) *cobra.Command {
	var keep string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Rank a small checkpoint of a small graph, both made on the spot",
		Long: `Do the main job with nothing to download: make a small graph of families and films, fit a MQuinE
checkpoint to its training split, and rank its test split exactly, as mquine eval does.

The graph and the checkpoint are removed afterwards unless --keep names a folder for them, where
the other commands can go on with them.`,
		Example: `  mquine demo
  mquine demo --keep ./try
  mquine predict --model ./try/checkpoint --data ./try/families --head film_000 --relation has_genre`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), keep, start)
		},
	}
	cmd.Flags().StringVar(&keep, "keep", "", "`folder` to keep the graph and the checkpoint in")
	must(cmd.MarkFlagDirname("keep"))
	return cmd
}

// The demonstration's graph and model.
const (
	demoData = "families"
	demoDim  = 16
	demoSeed = 1
)

func demo(ctx context.Context, out, log io.Writer, keep string, start time.Time) error {
	dir := keep
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "mquine-demo-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	e := newEvaluation(start)
	e.data, e.model = filepath.Join(dir, demoData), filepath.Join(dir, "checkpoint")
	if err := makeDemo(ctx, log, e); err != nil {
		return err
	}
	if err := e.run(ctx, out, log); err != nil {
		return err
	}
	if keep != "" {
		fmt.Fprintf(log, "kept the graph in %s and the checkpoint in %s\n", e.data, e.model)
	}
	return nil
}

// makeDemo writes the data set and the checkpoint that e ranks.
func makeDemo(ctx context.Context, log io.Writer, e *evaluation) error {
	g, _, err := synth.Families(ctx, synth.Config{Seed: demoSeed})
	if err != nil {
		return err
	}
	g.Name = demoData
	if err := kg.Write(ctx, e.data, g); err != nil {
		return err
	}
	fmt.Fprintf(log, "made %s: %s, %s training triples\n",
		demoData, sizes(g.Entities.Len(), g.Relations.Len()), comma(len(g.Splits[kg.Train])))

	backend, err := e.compute.resolve()
	if err != nil {
		return err
	}
	meter, fitting := newMeter(log), time.Now()
	c := model.Config{Model: "mquine", Dim: demoDim, Entities: g.Entities.Len(), Relations: g.Relations.Len()}
	m, err := train.Demo(ctx, c, g, train.Options{Seed: demoSeed, Backend: backend, Threads: e.threads, Progress: meter.fitting()})
	meter.clear()
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "fitted %s, d = %d, to them in %.1f s\n", c.Model, c.Dim, time.Since(fitting).Seconds())
	return checkpoint.Save(ctx, e.model, m, g.Entities, g.Relations, map[string]string{"dataset": demoData})
}
