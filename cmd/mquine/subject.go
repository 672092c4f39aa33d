package main

import (
	"bytes"
	"context"
	"io"
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
		notes   bytes.Buffer // must not interrupt the progress of reading the data set
	)
	reading.Go(func() {
		dataErr = phase(ctx, "data", func(ctx context.Context) (err error) {
			g, err = openData(ctx, in.data, log)
			return err
		})
	})
	err := phase(ctx, "checkpoint", func(ctx context.Context) (err error) {
		c, err = openCheckpoint(ctx, &notes, in.checkpoint, in.vocabulary)
		return err
	})
	reading.Wait()
	_, _ = notes.WriteTo(log) // notes must not end the work
	if err != nil {
		return nil, err
	}
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

func (s *subject) close() { s.checkpoint.Close() }

// verify returns an error if the checkpoint has changed since open. The caller must then discard
// its results.
func (s *subject) verify(ctx context.Context) error {
	return phase(ctx, "verify", s.checkpoint.Verify)
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
