package checkpoint

import (
	"cmp"
	"context"
	"fmt"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint/formats"
)

// openForeign opens a folder or a file of another tool.
func openForeign(ctx context.Context, f *formats.Format, path string) (format, *source, error) {
	folder, err := f.Open(ctx, path)
	if err != nil {
		return format{}, nil, err
	}
	src := newForeignSource(folder)
	read := func(c *Checkpoint, ctx context.Context, o options) error { return c.readForeign(ctx, folder, o) }
	return format{f.Name, read}, src, nil
}

func newForeignSource(folder *formats.Folder) *source {
	return &source{
		path: folder.Path, metadata: folder.Metadata, tensors: foreignTensors(folder.Tensors), files: folder.Files,
	}
}

// OpenTensors opens a model whose tables and vocabularies are in the given files, which any program
// may have written. It treats ctx as Open does.
func OpenTensors(ctx context.Context, files formats.TensorFiles) (*Checkpoint, error) {
	return input.Await(ctx, func() (*Checkpoint, error) { return openTensors(ctx, files) })
}

func openTensors(ctx context.Context, files formats.TensorFiles) (*Checkpoint, error) {
	folder, err := formats.OpenTensors(ctx, files)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{
		Path: folder.Path, Format: formats.Tensors, Metadata: folder.Metadata, source: newForeignSource(folder),
	}
	return c.complete(ctx, func() error { return c.convert(ctx, folder) })
}

// foreignTensors returns the tensors. Their values are computed when they are needed.
func foreignTensors(list []formats.Tensor) []tensor {
	tensors := make([]tensor, len(list))
	for i, t := range list {
		tensors[i] = tensor{t.Path, t.Name, t.Type, t.Shape, t.Values}
		if t.Type == "float32" {
			tensors[i].dtype = "F32"
		}
	}
	return tensors
}

// readForeign completes c from a folder of another tool.
func (c *Checkpoint) readForeign(ctx context.Context, folder *formats.Folder, o options) error {
	if err := folder.ReadVocabularies(ctx, o.vocabulary, o.ifMissing); err != nil {
		return err
	}
	return c.convert(ctx, folder)
}

// convert completes c from an open folder with vocabularies.
func (c *Checkpoint) convert(ctx context.Context, folder *formats.Folder) error {
	err := checkLabels("the vocabulary in "+folder.VocabularyDir, folder.Entities, folder.Relations)
	if err != nil {
		return fmt.Errorf("%s: %w", folder.Path, err)
	}
	converted, err := folder.Convert() // may change the vocabularies
	c.Entities, c.Relations, c.VocabularyDir = folder.Entities, folder.Relations, folder.VocabularyDir
	if err != nil {
		return err
	}
	c.Notes, c.Dataset = append(c.importedNotes(), converted.Notes...), cmp.Or(converted.Dataset, UnknownDataset)
	c.toolScore = converted.ToolScore
	c.source.tensors = foreignTensors(converted.Parameters)
	config := converted.Config
	if spec, err := model.Lookup(config.Model); err == nil { // build returns the error
		config = spec.WithoutDefaults(config)
	}
	return c.build(ctx, config, fmt.Sprintf("d = %d, %s and %s (in %s)", config.Dim,
		text.Plural(c.Entities.Len(), "entity"), text.Plural(c.Relations.Len(), "relation"), c.VocabularyDir))
}
