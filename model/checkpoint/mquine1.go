package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint/formats"
	"github.com/mquine/mquine/model/checkpoint/internal/mapped"
	"github.com/mquine/mquine/model/checkpoint/safetensors"
)

// These are the file names and metadata keys of format mquine/1.
const (
	formatName = "mquine/1"

	parametersName = "model.safetensors"
	entitiesName   = "entities.tsv"
	relationsName  = "relations.tsv"

	formatKey          = "format"
	modelKey           = "model"
	dimKey             = "dim"
	datasetKey         = "dataset"
	reciprocalKey      = "reciprocal" // "true", or absent
	inverseWeightKey   = "inverse_weight"
	entitiesSHA256Key  = "entities_sha256"
	relationsSHA256Key = "relations_sha256"
	checksumKey        = "parameters_sha256"

	// Import writes these. importedNotesKey holds a note in each line.
	importedFromKey   = "imported_from"
	importedSHA256Key = "imported_sha256"
	importedNotesKey  = "imported_notes"
)

// opener opens the parameter file of a checkpoint of format mquine/1: safetensors.Open or OpenTruncated.
type opener func(path string) (*safetensors.File, error)

// openMquine opens the parameters in a folder of format mquine/1.
func openMquine(ctx context.Context, dir string, open opener) (_ *source, err error) {
	path := filepath.Join(dir, parametersName)
	file, err := open(path)
	if err != nil {
		return nil, err
	}
	f := &source{path: path, metadata: file.Metadata()}
	defer f.closeAfter(&err)
	defer fault.Guard().Catch(&err)
	if err := f.add(ctx, file); err != nil {
		return nil, err
	}
	for _, t := range file.Tensors() {
		var values func() []float32
		if elements, err := file.Float32(t.Name); err == nil {
			values = func() []float32 { return elements }
		}
		f.tensors = append(f.tensors, tensor{path, t.Name, t.DType, t.Shape, values})
	}
	return f, nil
}

// readMquine completes c from a folder of format mquine/1.
func (c *Checkpoint) readMquine(ctx context.Context, o options) error {
	config, err := configOf(c.Metadata)
	if err != nil {
		return fmt.Errorf("%s: %w", c.source.path, err)
	}
	c.Notes, c.Dataset, c.VocabularyDir = c.importedNotes(), c.Metadata[datasetKey], c.Path
	if c.Entities, err = c.readVocabulary(ctx, entitiesName, entitiesSHA256Key); err != nil {
		return err
	}
	if c.Relations, err = c.readVocabulary(ctx, relationsName, relationsSHA256Key); err != nil {
		return err
	}
	if err := checkLabels("the vocabulary in "+c.Path, c.Entities, c.Relations); err != nil {
		return fmt.Errorf("%s: %w", c.source.path, err)
	}
	if o.vocabulary != "" && !o.ifMissing {
		if err := formats.SameVocabularies(ctx, c.Path, c.Entities, c.Relations, o.vocabulary); err != nil {
			return err
		}
	}
	err = c.build(ctx, config, fmt.Sprintf("d = %d, %s (%s) and %s (%s)", config.Dim,
		text.Plural(c.Entities.Len(), "entity"), entitiesName,
		text.Plural(c.Relations.Len(), "relation"), relationsName))
	if err != nil {
		return err
	}
	return c.checkParameters(ctx)
}

// checkParameters compares the parameters with the checksum in the metadata, if there is one.
func (c *Checkpoint) checkParameters(ctx context.Context) error {
	want, known := c.Metadata[checksumKey]
	if !known {
		return nil
	}
	got, err := checksum(ctx, c.Model.Tensors())
	if err == nil && got != want {
		err = fmt.Errorf("%s is damaged: the checksum of its parameters is %s, but its metadata has %.80q: "+
			"restore it from a copy, or remove %s from the metadata if the parameters were changed on purpose",
			c.source.path, got, want, checksumKey)
	}
	return err
}

// configOf returns the model's configuration in the metadata, without the numbers of entities and
// relations.
func configOf(metadata map[string]string) (model.Config, error) {
	if format := metadata[formatKey]; format != "" && format != formatName {
		return model.Config{}, fmt.Errorf("format %.80q is unknown: this version of mquine reads %s",
			format, formatName)
	}
	for _, key := range []string{formatKey, modelKey, dimKey, datasetKey} {
		if metadata[key] == "" {
			return model.Config{}, fmt.Errorf("the metadata lacks %q, which format %s requires", key, formatName)
		}
	}
	dim, err := strconv.Atoi(metadata[dimKey])
	if err != nil {
		return model.Config{}, fmt.Errorf("metadata %q is %.80q, not a dimension", dimKey, metadata[dimKey])
	}
	spec, err := model.Lookup(metadata[modelKey])
	if err != nil {
		return model.Config{}, err
	}
	config := model.Config{Model: spec.Name, Dim: dim}
	if text, given := metadata[reciprocalKey]; given {
		if config.Reciprocal, err = strconv.ParseBool(text); err != nil {
			return model.Config{}, fmt.Errorf("metadata %q is %.80q, not true or false", reciprocalKey, text)
		}
	}
	if text, given := metadata[inverseWeightKey]; given {
		if config.InverseWeight, err = strconv.ParseFloat(text, 64); err != nil {
			return model.Config{}, fmt.Errorf("metadata %q is %.80q, not a number", inverseWeightKey, text)
		}
	}
	for _, h := range spec.Hyper {
		text, given := metadata[h.Key]
		if !given {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return model.Config{}, fmt.Errorf("metadata %q is %.80q, not a number", h.Key, text)
		}
		if config.Hyper == nil {
			config.Hyper = map[string]float64{}
		}
		config.Hyper[h.Key] = value
	}
	return config, nil
}

// readVocabulary reads a vocabulary of c and compares its hash with the hash in the metadata.
func (c *Checkpoint) readVocabulary(ctx context.Context, name, key string) (*kg.Vocabulary, error) {
	path := filepath.Join(c.Path, name)
	if err := formats.CheckRegular(ctx, path); err != nil {
		return nil, err
	}
	file, err := input.Open(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: a checkpoint consists of the files %s, %s and %s",
			path, parametersName, entitiesName, relationsName)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, mapped.Reason(err))
	}
	defer file.Close()
	// Hash the same bytes that are parsed, because the file may change meanwhile.
	h := sha256.New()
	v, err := kg.ParseVocabulary(ctx, path, io.TeeReader(file, h))
	if err != nil {
		return nil, err
	}
	want, known := c.Metadata[key]
	if got := hex.EncodeToString(h.Sum(nil)); known && got != want {
		return nil, fmt.Errorf("%s is not the file that %s was saved with (SHA-256 %s, not %.80s): "+
			"restore it, or save the checkpoint again", path, parametersName, got, want)
	}
	return v, nil
}

func fileSHA256(path string) (string, error) {
	contents, err := os.ReadFile(path)
	sum := sha256.Sum256(contents)
	return hex.EncodeToString(sum[:]), err
}
