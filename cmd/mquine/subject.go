package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/catalogue"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/model/checkpoint/formats"
	"github.com/mquine/mquine/rank"
)

// subject is a model, and a data set that uses its identifiers. graph is nil if the command needs no
// data set and none is given.
type subject struct {
	model model.Model // the checkpoint's, or the ensemble of all members
	// checkpoint is the first member. It has the labels of the model's entities and relations.
	checkpoint *checkpoint.Checkpoint
	members    []member
	graph      *kg.Graph
	// dataNotes are the notes about the data set. The notes of graph are these and a note about candidates.
	dataNotes []string
}

// member is a checkpoint of a subject.
type member struct {
	model.Member
	checkpoint *checkpoint.Checkpoint
	sha256     string // checksum of the parameters; empty before digest
}

// open reads the checkpoints and the data set, and shows the progress on log. With --ensemble fit, all
// weights are 1 before fit. The caller must close the subject.
func (in inputs) open(ctx context.Context, log io.Writer) (*subject, error) {
	if in.skipUnknown && in.data == "" {
		return nil, fmt.Errorf("--%s is about the triples of a data set: add --%s, or leave it out",
			skipUnknownFlag, dataFlag)
	}
	for _, path := range append([]string{in.checkpoint}, in.ensemble.paths...) {
		if err := recognise(ctx, path); err != nil {
			return nil, err
		}
	}
	var read func(context.Context) (*kg.Graph, error)
	if in.data != "" {
		read = func(ctx context.Context) (*kg.Graph, error) { return openData(ctx, in.data, log) }
	}
	s, err := in.openFirst(ctx, log, read)
	if err != nil || in.ensemble.paths == nil {
		return s, err
	}
	if err := in.ensemble.join(ctx, log, in, s); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// recognise returns the error of openCheckpoint for a path that does not lead to the files of a
// checkpoint, without reading them.
func recognise(ctx context.Context, path string) error {
	dir, err := findCheckpoint(ctx, io.Discard, path)
	if err != nil || exists(dir, "model.safetensors") || len(formats.Find(dir)) == 1 {
		return err
	}
	c, err := checkpoint.Open(ctx, dir)
	if err == nil {
		c.Close()
	}
	return err
}

// openFirst reads the first checkpoint and, unless read is nil, the data set concurrently. The first
// error ends both.
func (in inputs) openFirst(
	ctx context.Context, log io.Writer, read func(context.Context) (*kg.Graph, error),
) (*subject, error) {
	var (
		c     *checkpoint.Checkpoint
		g     *kg.Graph
		notes = delayed{to: log} // must not interrupt the progress of reading the data set
	)
	group, ctx := errgroup.WithContext(ctx)
	if read != nil {
		group.Go(func() error {
			return phase(ctx, "data", func(ctx context.Context) (err error) {
				g, err = read(ctx)
				return err
			})
		})
	}
	group.Go(func() error {
		return phase(ctx, "checkpoint", func(ctx context.Context) (err error) {
			vocabulary := checkpoint.VocabularyFolder(in.vocabulary)
			if in.several {
				vocabulary = checkpoint.MissingVocabularies(in.vocabulary)
			}
			if c, err = openCheckpoint(ctx, &notes, in.checkpoint, vocabulary); err == nil {
				err = in.inverseWeight.apply(c, in.several)
			}
			return err
		})
	})
	err := group.Wait()
	_, _ = notes.WriteTo(log) // a failure to print notes must not end the work
	var dataNotes []string
	if err == nil && g != nil {
		if in.skipUnknown {
			g, err = g.Restrict(checkpointOwner, c.Entities, c.Relations)
		}
		if err == nil {
			dataNotes = g.Notes
			if g, err = g.Relabel(c.Entities, c.Relations); err != nil {
				err = fmt.Errorf("%w, or leave out their triples with --%s", err, skipUnknownFlag)
			}
		}
	}
	if err != nil {
		if c != nil {
			c.Close()
		}
		return nil, err
	}
	return &subject{
		model: c.Model, checkpoint: c, members: []member{{checkpoint: c}}, graph: g, dataNotes: dataNotes,
	}, nil
}

// delayed keeps text for the writer to. The text has the styles that this writer shows.
type delayed struct {
	bytes.Buffer
	to io.Writer
}

// Unwrap returns the writer that the text is for.
func (d *delayed) Unwrap() io.Writer { return d.to }

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
// If neither applies, or if the name is also a path, it returns err.
func explainData(name string, err error) error {
	if _, wrong := kg.Folder(name); wrong == nil || kg.IsFolder(name) && exists(name) {
		return err
	}
	if kg.IsFolder(name) {
		installed, _ := kg.Installed()
		if similar := text.Similar(filepath.Base(name), append(installed, catalogueNames()...), 1); len(similar) > 0 {
			err = fmt.Errorf("%w; did you mean the data set %s, without a slash?", err, similar[0])
		}
		return err
	}
	dir, wrong := kg.DataDir()
	if wrong != nil {
		return wrong
	}
	if _, public := catalogue.Find(name); public {
		if os.Getenv("MQUINE_DATA") != "" && !exists(dir) {
			return fmt.Errorf("MQUINE_DATA names %s, which does not exist: correct it, or run mquine data get %s to "+
				"create it", dir, name)
		}
		return fmt.Errorf("data set %s is not installed: run mquine data get %[1]s", name)
	}
	if exists(name) {
		return err
	}
	installed, _ := kg.Installed() // err matters more than an error of Installed
	if similar := text.Similar(name, append(installed, catalogueNames()...), 1); len(similar) > 0 {
		return fmt.Errorf("no data set %q: did you mean %s? \"mquine data list\" lists all data sets", name, similar[0])
	}
	return err
}

// buildIndex indexes the known answers of the data set.
func (s *subject) buildIndex(ctx context.Context) (*kg.Index, error) { return indexKnown(ctx, s.graph) }

func indexKnown(ctx context.Context, g *kg.Graph) (x *kg.Index, err error) {
	err = phase(ctx, "index", func(ctx context.Context) error {
		x, err = kg.NewIndex(ctx, g)
		return err
	})
	return x, err
}

func (s *subject) close() {
	for _, m := range s.members {
		m.checkpoint.Close()
	}
}

// verify returns an error if a checkpoint has changed since open. The caller must then discard all
// results.
func (s *subject) verify(ctx context.Context) error {
	for _, m := range s.members {
		if err := phase(ctx, "verify", m.checkpoint.Verify); err != nil {
			return err
		}
	}
	return nil
}

// digest computes the checksums of the parameters, once.
func (s *subject) digest(ctx context.Context) (err error) {
	for i := range s.members {
		if m := &s.members[i]; m.sha256 == "" {
			if m.sha256, err = m.checkpoint.SHA256(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// vocabularyDigest returns the SHA-256 of the labels of the checkpoints in the order of their
// identifiers, in hex. The checksums of the parameters may not cover the labels.
func (s *subject) vocabularyDigest() string {
	digest := sha256.New()
	for _, m := range s.members {
		for _, v := range []*kg.Vocabulary{m.checkpoint.Entities, m.checkpoint.Relations} {
			fmt.Fprintln(digest, v.Len())
			for _, label := range v.Labels() {
				fmt.Fprintln(digest, label) // a label has no line ends
			}
		}
	}
	return hex.EncodeToString(digest.Sum(nil))
}

// described identifies the checkpoint, or the checkpoints of the ensemble, with their checksums if
// digest has computed them.
func (s *subject) described() metrics.Checkpoint {
	var all []metrics.EnsembleMember
	for _, m := range s.members {
		all = append(all, metrics.EnsembleMember{
			Weight: m.Weight, Checkpoint: describedCheckpoint(m.checkpoint, m.sha256),
		})
	}
	if len(all) == 1 {
		return all[0].Checkpoint
	}
	return metrics.Checkpoint{Model: model.EnsembleName, Members: all}
}

// describe identifies the model and the data set in the provenance of a result. With checksums, it
// computes their checksums.
func (s *subject) describe(ctx context.Context, from *metrics.Provenance, checksums bool) (err error) {
	var triples string
	if checksums {
		if err = s.digest(ctx); err == nil && s.graph != nil {
			triples, err = s.graph.SHA256(ctx)
		}
	}
	from.Checkpoint = s.described()
	if s.graph != nil {
		from.Data = describedData(s.graph, triples)
	}
	return err
}

// explain makes an error about the score of a triple name its labels, and an error about an unknown
// label name the identifiers of a readable label. It returns other errors unchanged.
func (s *subject) explain(ctx context.Context, err error) error {
	if overflow := (*rank.OverflowError)(nil); errors.As(err, &overflow) {
		return overflow.Labelled(s.checkpoint.Entities, s.checkpoint.Relations)
	}
	if s.graph == nil {
		return err
	}
	return explainLabel(ctx, err, s.graph.Dir)
}

// explainLabel adds to an error about an unknown label the identifiers that have it as their readable
// label in a folder of a data set. It returns other errors unchanged.
func explainLabel(ctx context.Context, err error, dir string) error {
	unknown := (*kg.UnknownLabelError)(nil)
	if !errors.As(err, &unknown) {
		return err
	}
	labels, failed := kg.ReadLabels(ctx, dir)
	if failed != nil {
		return err
	}
	var identifiers []string
	for identifier, label := range labels {
		if strings.EqualFold(label, unknown.Label) {
			identifiers = append(identifiers, identifier)
		}
	}
	if len(identifiers) == 0 {
		return err
	}
	slices.Sort(identifiers)
	const shown = 3
	if more := len(identifiers) - shown; more > 0 {
		identifiers = append(identifiers[:shown], fmt.Sprintf("%d more", more))
	}
	return fmt.Errorf("%w; this is the label of %s: give an identifier", err, text.Join(identifiers, "and"))
}

func (s *subject) writeNotes(w io.Writer) {
	if s.graph != nil {
		writeNotes(w, s.graph.Notes)
	}
}

// noteData prints the notes about the data set. With ranks, it includes the note about candidates.
func (s *subject) noteData(w io.Writer, ranks bool) {
	if ranks {
		s.writeNotes(w)
	} else {
		writeNotes(w, s.dataNotes)
	}
}

// noteRelations prints a note about candidates of a ranking of relations. kg.Graph.Relabel has the note
// about entities.
func (s *subject) noteRelations(w io.Writer) {
	if n := s.graph.AddedRelations(); n > 0 {
		printNote(w, "%s", text.Count(n, "relation that is only in the checkpoint stays a candidate",
			"relations that are only in the checkpoint stay candidates"))
	}
}

// missingSplits returns the splits that g lacks.
func missingSplits(g *kg.Graph) (missing []kg.Split) {
	for split := range kg.NumSplits {
		if !g.Has(split) {
			missing = append(missing, split)
		}
	}
	return missing
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
