// Package checkpoint reads and writes trained models.
//
// The format mquine/1 is a folder of three files:
//
//	model.safetensors   the parameters, float32, with the names and shapes of model.Parameters
//	entities.tsv        the labels of the entities: lines id<TAB>label
//	relations.tsv       the labels of the relations
//
// The metadata of model.safetensors, all text, must have "format" (mquine/1), "model" (a name
// that package model knows), "dim" (the model's dimension d, decimal) and "dataset" (the name of
// the data set that the model was trained on). "gamma", "embedding_range" and "modulus", decimal,
// are the fields of model.Config with these names, which some models need. "entities_sha256" and
// "relations_sha256", hex, are the hashes of the vocabulary files and "parameters_sha256" is the checksum
// of the parameters: the SHA-256 of the SHA-256 of each MiB of every tensor, in the order of model.Parameters,
// row-major and little-endian. Save writes these three, and Open checks them where they are present.
// Everything else is kept as it is.
//
// The format rotate is the folder that the RotatE repository's training writes (rotate.go).
package checkpoint

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// Checkpoint is an open checkpoint: a model with the labels that its rows stand for.
type Checkpoint struct {
	// Path is the folder.
	Path string
	// Format is the format of the folder: mquine/1 or rotate.
	Format string
	// Model has the parameters. They are the mapped files, so that it must not be used after Close. A
	// program that writes to the files while they are open changes the model: Verify tells. One that
	// truncates them makes reading the model fail: rank.Run, rank.Predict and Save then return an error,
	// but a goroutine of your own that reads the parameters ends the process, as with any mapped file.
	Model               model.Model
	Entities, Relations *kg.Vocabulary
	// VocabularyDir is the folder that the vocabularies were read from, which need not be Path.
	VocabularyDir string
	// Dataset is the name of the data set that the model was trained on.
	Dataset string
	// Metadata has all that the folder says of the model as text; do not modify it.
	Metadata map[string]string

	source *source
}

// Option changes what Open does.
type Option func(*options)

type options struct {
	vocabulary string
}

// VocabularyFolder names the folder with the vocabularies of a checkpoint that has none itself:
// entities.dict and relations.dict, or entities.tsv and relations.tsv. A checkpoint that has
// vocabularies must have the same.
func VocabularyFolder(dir string) Option { return func(o *options) { o.vocabulary = dir } }

// Open opens the checkpoint in the folder dir. What it returns is whole: the parameters have the
// model's names and shapes, every one of them is finite, and the vocabularies have one label for
// each row. An error is one sentence that says what is wrong and in which file; Inspect looks into
// checkpoints that Open refuses.
//
// What is computed with the checkpoint holds only if Verify, called afterwards, returns no error.
func Open(ctx context.Context, dir string, with ...Option) (*Checkpoint, error) {
	var o options
	for _, option := range with {
		option(&o)
	}
	format, src, err := openSource(ctx, dir)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Path: dir, Format: format.name, Metadata: src.metadata, source: src}
	if err := format.read(c, ctx, o); err != nil {
		err = cmp.Or(src.verify(ctx), err) // a file that is being written may look damaged
		_ = src.Close()
		return nil, err
	}
	return c, nil
}

// format is a kind of checkpoint.
type format struct {
	name string
	// marker is the file that tells a folder of this format.
	marker string
	// open opens and marks the files with parameters, and checks no more than that they can be read.
	open func(ctx context.Context, dir string) (*source, error)
	// read fills in a checkpoint whose files are open.
	read func(c *Checkpoint, ctx context.Context, o options) error
}

var formats = []format{
	{formatName, parametersName, openMquine, (*Checkpoint).readMquine},
	{rotateName, rotateEntities, openRotate, (*Checkpoint).readRotate},
}

// source is the files with a checkpoint's parameters.
type source struct {
	// path is the file, or the folder if there are several.
	path     string
	metadata map[string]string
	tensors  []tensor
	// files are in the order in which they are hashed, marked before their first use; nil once closed.
	files []mappedFile
}

type mappedFile interface {
	Bytes() []byte
	Mark(ctx context.Context) error
	Verify(ctx context.Context) error
	Close() error
}

// add adds an open file and marks it.
func (s *source) add(ctx context.Context, f mappedFile) error {
	s.files = append(s.files, f)
	return f.Mark(ctx)
}

// tensor is a tensor in a file.
type tensor struct {
	path, name, dtype string
	shape             []int
	values            []float32 // nil unless float32
}

// openSource finds out the format of the folder dir and opens its parameters.
func openSource(ctx context.Context, dir string) (format, *source, error) {
	type opened struct {
		format
		*source
	}
	o, err := input.Await(ctx, func() (opened, error) {
		f, src, err := openFolder(ctx, dir)
		return opened{f, src}, err
	})
	return o.format, o.source, err
}

func openFolder(ctx context.Context, dir string) (format, *source, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return format{}, nil, fmt.Errorf("there is no checkpoint %s: no such folder", dir)
	case err != nil:
		return format{}, nil, fmt.Errorf("opening checkpoint: %w", err)
	case !info.IsDir():
		return format{}, nil, fmt.Errorf("%s is not a folder: a checkpoint is named by the folder that holds its files", dir)
	}
	var markers []string
	for _, f := range formats {
		if _, err := os.Stat(filepath.Join(dir, f.marker)); !errors.Is(err, fs.ErrNotExist) {
			src, err := f.open(ctx, dir)
			return f, src, err
		}
		markers = append(markers, f.marker)
	}
	return format{}, nil, fmt.Errorf("%s is not a checkpoint: it has no %s", dir, strings.Join(markers, " and no "))
}

// sha256 returns the hash of the files' contents, one after the other, in hex.
func (s *source) sha256(ctx context.Context) (_ string, err error) {
	if s.files == nil {
		panic("checkpoint: SHA256 after Close")
	}
	defer fault.Guard().Catch(&err)
	h := sha256.New()
	for _, file := range s.files {
		for chunk := range slices.Chunk(file.Bytes(), 1<<20) {
			if err := ctx.Err(); err != nil {
				return "", err
			}
			h.Write(chunk)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// verify returns an error if a file was changed since it was opened. The file that was opened first comes
// last, so that it held while the others were in use.
func (s *source) verify(ctx context.Context) error {
	if s.files == nil {
		panic("checkpoint: Verify after Close")
	}
	for _, file := range slices.Backward(s.files) {
		if err := file.Verify(ctx); err != nil {
			return err
		}
	}
	return nil
}

// closeAfter closes the source if the caller ends with an error.
func (s *source) closeAfter(err *error) {
	if *err != nil {
		_ = s.Close()
	}
}

func (s *source) Close() error {
	var errs []error
	for _, file := range s.files {
		errs = append(errs, file.Close())
	}
	s.files = nil
	return errors.Join(errs...)
}

// build makes the model of c from its files, once the vocabularies are known. named says what the
// numbers of rows are compared with.
func (c *Checkpoint) build(ctx context.Context, config model.Config, named string) error {
	config.Entities, config.Relations = c.Entities.Len(), c.Relations.Len()
	parameters, err := model.Parameters(config)
	if err != nil {
		return fmt.Errorf("%s: %w", c.source.path, err)
	}
	for _, t := range c.source.tensors {
		if !slices.ContainsFunc(parameters, func(p model.Parameter) bool { return p.Name == t.name }) {
			return fmt.Errorf("%s: tensor %.80q is not one of model %s", t.path, t.name, config.Model)
		}
	}
	values := make([][]float32, len(parameters))
	for i, p := range parameters {
		at := slices.IndexFunc(c.source.tensors, func(t tensor) bool { return t.name == p.Name })
		if at < 0 {
			return fmt.Errorf("%s: tensor %q of model %s is missing", c.source.path, p.Name, config.Model)
		}
		t := c.source.tensors[at]
		if dims := p.Dims(); !slices.Equal(t.shape, dims) {
			return fmt.Errorf("%s: tensor %q has shape %v, and %s with %s needs %v",
				t.path, p.Name, t.shape, config.Model, named, dims)
		}
		if t.values == nil {
			return fmt.Errorf("%s: tensor %.80q is %s, and only F32 can be read: convert it to float32 and save it again", t.path, t.name, t.dtype)
		}
		if err := checkFinite(ctx, t.path+": ", p, t.values); err != nil {
			return err
		}
		values[i] = t.values
	}
	if c.Model, err = model.New(config, values); err != nil {
		return fmt.Errorf("%s: %w", c.source.path, err)
	}
	return nil
}

// SHA256 returns, in hex, the SHA-256 of model.safetensors, or of the tables of a rotate folder, the
// entities' and then the relations'. It must come before Close, and before Verify, which covers it too.
func (c *Checkpoint) SHA256(ctx context.Context) (string, error) { return c.source.sha256(ctx) }

// Verify returns an error if another program changed a file with parameters since Open. It is one sentence
// that names the file. If the files changed during a computation, its results belong to no checkpoint, so call Verify
// after the last use of Model, and show or keep results only if it returns nil. It reads all parameters
// once more. A file that is replaced by another of the same name, as by Replace, has not changed: Model
// still has the old one.
func (c *Checkpoint) Verify(ctx context.Context) error { return c.source.verify(ctx) }

// Close gives the memory of the parameters back.
func (c *Checkpoint) Close() error { return c.source.Close() }
