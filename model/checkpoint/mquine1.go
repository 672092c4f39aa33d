package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint/safetensors"
)

// The files and the metadata of format mquine/1.
const (
	formatName = "mquine/1"

	parametersName = "model.safetensors"
	entitiesName   = "entities.tsv"
	relationsName  = "relations.tsv"

	formatKey          = "format"
	modelKey           = "model"
	dimKey             = "dim"
	datasetKey         = "dataset"
	entitiesSHA256Key  = "entities_sha256"
	relationsSHA256Key = "relations_sha256"
)

// readMquine fills in c, whose file is open, from a folder of format mquine/1.
func (c *Checkpoint) readMquine(ctx context.Context) error {
	path := filepath.Join(c.Path, parametersName)
	config, err := configOf(c.Metadata)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	c.Dataset = c.Metadata[datasetKey]
	if c.Entities, err = c.readVocabulary(entitiesName, entitiesSHA256Key); err != nil {
		return err
	}
	if c.Relations, err = c.readVocabulary(relationsName, relationsSHA256Key); err != nil {
		return err
	}
	config.Entities, config.Relations = c.Entities.Len(), c.Relations.Len()
	shapes, err := model.Shapes(config)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := checkShapes(c.file.Tensors(), shapes, config); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	tensors := make([][]float32, len(shapes))
	for i, s := range shapes {
		if tensors[i], err = c.file.Float32(s.Name); err != nil {
			return err
		}
	}
	if err := checkFinite(ctx, shapes, tensors); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if c.Model, err = model.New(config, tensors); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// configOf returns what the metadata says of the model: everything but the numbers of rows.
func configOf(metadata map[string]string) (model.Config, error) {
	if format := metadata[formatKey]; format != "" && format != formatName {
		return model.Config{}, fmt.Errorf("format %.80q is unknown: this version of mquine reads %s", format, formatName)
	}
	for _, key := range []string{formatKey, modelKey, dimKey, datasetKey} {
		if metadata[key] == "" {
			return model.Config{}, fmt.Errorf("the metadata lack %q, which format %s requires", key, formatName)
		}
	}
	dim, err := strconv.Atoi(metadata[dimKey])
	if err != nil {
		return model.Config{}, fmt.Errorf("metadata %q is %.80q, which is not a dimension", dimKey, metadata[dimKey])
	}
	return model.Config{Model: metadata[modelKey], Dim: dim}, nil
}

// readVocabulary reads a vocabulary of c and compares its hash with that in the metadata.
func (c *Checkpoint) readVocabulary(name, key string) (*kg.Vocabulary, error) {
	path := filepath.Join(c.Path, name)
	v, err := kg.ReadVocabulary(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: a checkpoint is the files %s, %s and %s", path, parametersName, entitiesName, relationsName)
	}
	if err != nil {
		return nil, err
	}
	want, known := c.Metadata[key]
	if !known {
		return v, nil
	}
	got, err := fileSHA256(path)
	if err != nil {
		return nil, err
	}
	if got != want {
		return nil, fmt.Errorf("%s is not the file that %s was saved with (SHA-256 %s, not %.80s): restore it, or save the checkpoint again", path, parametersName, got, want)
	}
	return v, nil
}

func fileSHA256(path string) (string, error) {
	contents, err := os.ReadFile(path)
	return hexSHA256(contents), err
}

// checkShapes compares the tensors of a file with those of the model.
func checkShapes(tensors []safetensors.Tensor, shapes []model.Shape, c model.Config) error {
	for _, t := range tensors {
		if !slices.ContainsFunc(shapes, func(s model.Shape) bool { return s.Name == t.Name }) {
			return fmt.Errorf("tensor %.80q is not one of model %s", t.Name, c.Model)
		}
	}
	for _, s := range shapes {
		i := slices.IndexFunc(tensors, func(t safetensors.Tensor) bool { return t.Name == s.Name })
		if i < 0 {
			return fmt.Errorf("tensor %q of model %s is missing", s.Name, c.Model)
		}
		if got := tensors[i].Shape; !slices.Equal(got, s.Dims) {
			return fmt.Errorf("tensor %q has shape %v, and %s with d = %d, %d entities (%s) and %d relations (%s) needs %v",
				s.Name, got, c.Model, c.Dim, c.Entities, entitiesName, c.Relations, relationsName, s.Dims)
		}
	}
	return nil
}
