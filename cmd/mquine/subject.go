package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/catalogue"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/rank"
)

// subject is a checkpoint and a data set that uses the identifiers of the checkpoint. graph is nil
// if the command needs no data set and none is given.
type subject struct {
	checkpoint *checkpoint.Checkpoint
	graph      *kg.Graph
}

// open reads the checkpoint and the data set concurrently, and shows the progress on log. The
// caller must close the subject.
func (in inputs) open(ctx context.Context, log io.Writer) (*subject, error) {
	var (
		c       *checkpoint.Checkpoint
		g       *kg.Graph
		dataErr error
		reading sync.WaitGroup
		notes   bytes.Buffer // must not interrupt the progress of reading the data set
	)
	if in.data != "" {
		reading.Go(func() {
			dataErr = phase(ctx, "data", func(ctx context.Context) (err error) {
				g, err = openData(ctx, in.data, log)
				return err
			})
		})
	}
	err := phase(ctx, "checkpoint", func(ctx context.Context) (err error) {
		vocabulary := checkpoint.VocabularyFolder(in.vocabulary)
		if in.several {
			vocabulary = checkpoint.MissingVocabularies(in.vocabulary)
		}
		c, err = openCheckpoint(ctx, &notes, in.checkpoint, vocabulary)
		return err
	})
	reading.Wait()
	_, _ = notes.WriteTo(log) // a failure to print notes must not end the work
	if err != nil {
		return nil, err
	}
	if dataErr == nil && g != nil {
		g, dataErr = g.Relabel(c.Entities, c.Relations)
	}
	if dataErr != nil {
		c.Close()
		return nil, dataErr
	}
	return &subject{c, g}, nil
}

// openData reads a data set, and shows the progress on log if this takes long.
func openData(ctx context.Context, data string, log io.Writer) (*kg.Graph, error) {
	meter := newMeter(log)
	defer meter.clear()
	g, err := kg.Open(ctx, data, kg.ReportProgress(meter.reading(data)))
	if err != nil && ctx.Err() == nil {
		err = explainData(data, err)
	}
	return g, err
}

// explainData returns an error that says how to get the data set, or that suggests a similar name.
// If neither applies, it returns err.
func explainData(name string, err error) error {
	if _, wrong := kg.Folder(name); wrong == nil || strings.Contains(name, "/") {
		return err
	}
	if _, public := catalogue.Find(name); public {
		return fmt.Errorf("data set %s is not installed: run mquine data get %[1]s", name)
	}
	installed, _ := kg.Installed() // err matters more than an error of Installed
	if similar := text.Similar(name, append(installed, catalogueNames()...), 1); len(similar) > 0 {
		return fmt.Errorf("no data set %q: did you mean %s? \"mquine data list\" lists all data sets", name, similar[0])
	}
	return err
}

func (s *subject) close() { s.checkpoint.Close() }

// verify returns an error if the checkpoint has changed since open. The caller must then discard all
// results.
func (s *subject) verify(ctx context.Context) error {
	return phase(ctx, "verify", s.checkpoint.Verify)
}

// digests returns the checksums of the checkpoint's parameters and of the triples. Without a data
// set, the second checksum is empty.
func (s *subject) digests(ctx context.Context) (sums [2]string, err error) {
	if sums[0], err = s.checkpoint.SHA256(ctx); err == nil && s.graph != nil {
		sums[1], err = s.graph.SHA256(ctx)
	}
	return sums, err
}

func (s *subject) writeNotes(w io.Writer) {
	if s.graph != nil {
		writeNotes(w, s.graph.Notes)
	}
}

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
