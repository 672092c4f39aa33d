package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/rank"
)

// subject is a checkpoint and a data set, relabelled to the identifiers of the checkpoint.
type subject struct {
	checkpoint *checkpoint.Checkpoint
	graph      *kg.Graph
}

// open reads the checkpoint and the data set concurrently, and shows its progress on log. The
// caller closes the subject.
func (in inputs) open(ctx context.Context, log io.Writer) (*subject, error) {
	var (
		c       *checkpoint.Checkpoint
		g       *kg.Graph
		dataErr error
		reading sync.WaitGroup
	)
	reading.Go(func() {
		dataErr = phase(ctx, "data", func(ctx context.Context) (err error) {
			g, err = openData(ctx, in.data, log)
			return err
		})
	})
	err := phase(ctx, "checkpoint", func(ctx context.Context) (err error) {
		c, err = openCheckpoint(ctx, in.model, in.vocabulary)
		return err
	})
	reading.Wait()
	if err != nil {
		return nil, err
	}
	writeVocabularyNote(log, c)
	if dataErr == nil {
		g, dataErr = g.Relabel(c.Entities, c.Relations)
	}
	if dataErr != nil {
		c.Close()
		return nil, dataErr
	}
	return &subject{c, g}, nil
}

// openData reads a data set, and shows its progress on log if reading takes long.
func openData(ctx context.Context, data string, log io.Writer) (*kg.Graph, error) {
	meter := newMeter(log)
	defer meter.clear()
	return kg.Open(ctx, data, kg.ReportProgress(meter.reading(data)))
}

// openCheckpoint opens a checkpoint. It reads the vocabularies from the folder vocabulary unless
// that is empty.
func openCheckpoint(ctx context.Context, dir, vocabulary string) (*checkpoint.Checkpoint, error) {
	var options []checkpoint.Option
	if vocabulary != "" {
		options = append(options, checkpoint.VocabularyFolder(vocabulary))
	}
	c, err := checkpoint.Open(ctx, dir, options...)
	return c, explainRun(ctx, dir, err)
}

// explainRun returns a better error than err if dir is the folder of a training run, which users
// may mistake for a checkpoint.
func explainRun(ctx context.Context, dir string, err error) error {
	if err == nil || ctx.Err() != nil || exists(filepath.Join(dir, "model.safetensors")) {
		return err
	}
	for _, name := range []string{"best", "last"} {
		inner := filepath.Join(dir, name)
		if exists(filepath.Join(inner, "model.safetensors")) {
			return fmt.Errorf("%s is the folder of a training run: use a checkpoint in it, such as %s", dir, inner)
		}
	}
	return err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// writeVocabularyNote prints a note if the labels of a checkpoint come from a different folder.
func writeVocabularyNote(w io.Writer, c *checkpoint.Checkpoint) {
	if c.VocabularyDir != c.Path {
		printLine(w, "note: the labels of %s come from %s", c.Path, c.VocabularyDir)
	}
}

func (s *subject) close() { s.checkpoint.Close() }

// verify returns an error if the checkpoint has changed since open. The caller must then discard
// its results.
func (s *subject) verify(ctx context.Context) error {
	return phase(ctx, "verify", s.checkpoint.Verify)
}

// digests returns the checksums of the checkpoint's parameters and of the triples.
func (s *subject) digests(ctx context.Context) (sums [2]string, err error) {
	if sums[0], err = s.checkpoint.SHA256(ctx); err == nil {
		sums[1], err = s.graph.SHA256(ctx)
	}
	return sums, err
}

func (s *subject) writeNotes(w io.Writer) { writeNotes(w, s.graph.Notes) }

// triplesToRank returns the triples of a split. It returns an error if g lacks a split that a
// filter needs.
func triplesToRank(g *kg.Graph, split kg.Split, filters ...rank.Filter) ([]kg.Triple, error) {
	triples, err := g.Triples(split)
	if err != nil {
		return nil, err
	}
	for _, f := range filters {
		if err := f.Check(g); err != nil {
			return nil, err
		}
	}
	return triples, nil
}
