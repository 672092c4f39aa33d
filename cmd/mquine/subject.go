package main

import (
	"context"
	"io"
	"sync"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/rank"
)

// subject is a checkpoint and a data set in the checkpoint's identifiers.
type subject struct {
	checkpoint *checkpoint.Checkpoint
	graph      *kg.Graph
}

// open reads the checkpoint and the data set side by side, and tells on log how far it has come; the
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

// openData reads a data set, and tells on log how far it has come where that takes long.
func openData(ctx context.Context, data string, log io.Writer) (*kg.Graph, error) {
	meter := newMeter(log)
	defer meter.clear()
	return kg.Open(ctx, data, kg.ReportProgress(meter.reading(data)))
}

// openCheckpoint opens a checkpoint, with the vocabularies of a folder unless that is "".
func openCheckpoint(ctx context.Context, dir, vocabulary string) (*checkpoint.Checkpoint, error) {
	if vocabulary == "" {
		return checkpoint.Open(ctx, dir)
	}
	return checkpoint.Open(ctx, dir, checkpoint.VocabularyFolder(vocabulary))
}

// writeVocabularyNote tells where the labels of a checkpoint come from, if not from its own folder.
func writeVocabularyNote(w io.Writer, c *checkpoint.Checkpoint) {
	if c.VocabularyDir != c.Path {
		printLine(w, "note: the labels of %s are those in %s", c.Path, c.VocabularyDir)
	}
}

func (s *subject) close() { s.checkpoint.Close() }

// verify returns an error if the checkpoint was changed since open: what was computed with it must then
// not be shown.
func (s *subject) verify(ctx context.Context) error {
	return phase(ctx, "verify", s.checkpoint.Verify)
}

// writeNotes tells what a user should know about the data.
func (s *subject) writeNotes(w io.Writer) { writeNotes(w, s.graph.Notes) }

// triplesToRank returns the triples of a split, after making sure that g has what the filters remove.
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
