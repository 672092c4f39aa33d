package main

import (
	"context"
	"io"
	"sync"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/checkpoint"
)

// subject is a checkpoint and a data set in the checkpoint's identifiers.
type subject struct {
	checkpoint *checkpoint.Checkpoint
	graph      *kg.Graph
}

// open reads the checkpoint and the data set side by side; the caller closes the subject.
func (in inputs) open(ctx context.Context) (*subject, error) {
	var (
		c       *checkpoint.Checkpoint
		g       *kg.Graph
		dataErr error
		reading sync.WaitGroup
	)
	reading.Go(func() {
		dataErr = phase(ctx, "data", func(ctx context.Context) (err error) {
			g, err = kg.Open(ctx, in.data)
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
	if dataErr == nil {
		g, dataErr = g.Relabel(c.Entities, c.Relations)
	}
	if dataErr != nil {
		c.Close()
		return nil, dataErr
	}
	return &subject{c, g}, nil
}

func (s *subject) close() { s.checkpoint.Close() }

// writeNotes tells what a user should know about the data.
func (s *subject) writeNotes(w io.Writer) { writeNotes(w, s.graph.Notes) }
