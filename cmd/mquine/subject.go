package main

import (
	"context"
	"fmt"
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

// verify returns an error if the checkpoint was changed since open: what was computed with it must then
// not be shown.
func (s *subject) verify(ctx context.Context) error {
	return phase(ctx, "verify", s.checkpoint.Verify)
}

// writeNotes tells what a user should know about the data.
func (s *subject) writeNotes(w io.Writer) {
	for _, note := range s.graph.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
}
