// Package checkpoint reads and writes trained models.
//
// The format mquine/1 is a folder of three files:
//
//	model.safetensors   the parameters, float32, with the names and shapes of model.Shapes
//	entities.tsv        the labels of the entities: lines id<TAB>label
//	relations.tsv       the labels of the relations
//
// The metadata of model.safetensors, all text, must have "format" (mquine/1), "model" (a name
// that package model knows), "dim" (the model's dimension d, decimal) and "dataset" (the name of
// the data set that the model was trained on). "entities_sha256" and "relations_sha256", hex, are
// written by Save and are checked where they are present; everything else is kept as it is.
package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint/safetensors"
)

// Checkpoint is an open checkpoint: a model with the labels that its rows stand for.
type Checkpoint struct {
	// Path is the folder.
	Path string
	// Model has the parameters. They are the mapped file, so that it must not be used after
	// Close, nor the file be changed in place while it is open; Replace does not do that.
	Model               model.Model
	Entities, Relations *kg.Vocabulary
	// Dataset is the name of the data set that the model was trained on.
	Dataset string
	// Metadata has all entries of the file, those of the format included; do not modify it.
	Metadata map[string]string

	file   *safetensors.File
	sha256 func() string
}

// Open opens the checkpoint in the folder dir. What it returns is whole: the parameters have the
// model's names and shapes, every one of them is finite, and the vocabularies have one label for
// each row. An error is one sentence that says what is wrong and in which file; Inspect looks into
// checkpoints that Open refuses.
func Open(ctx context.Context, dir string) (*Checkpoint, error) {
	file, err := openParameters(dir)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Path: dir, file: file, Metadata: file.Metadata()}
	c.sha256 = sync.OnceValue(func() string {
		if file.Bytes() == nil {
			panic("checkpoint: the first SHA256 after Close")
		}
		return hexSHA256(file.Bytes())
	})
	if err := c.readMquine(ctx); err != nil {
		_ = file.Close()
		return nil, err
	}
	return c, nil
}

// openParameters opens the parameters of the checkpoint in the folder dir. The files in a folder
// tell its format; so far there is one.
func openParameters(dir string) (*safetensors.File, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no checkpoint %s: no such folder", dir)
	case err != nil:
		return nil, fmt.Errorf("opening checkpoint: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a folder: a checkpoint is named by the folder that holds %s", dir, parametersName)
	}
	file, err := safetensors.Open(filepath.Join(dir, parametersName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not a checkpoint: it has no %s", dir, parametersName)
	}
	return file, err
}

// SHA256 returns the SHA-256 of model.safetensors in hex. The first call computes it, and must
// come before Close.
func (c *Checkpoint) SHA256() string { return c.sha256() }

// Close gives the memory of the parameters back.
func (c *Checkpoint) Close() error { return c.file.Close() }

func hexSHA256(contents []byte) string {
	sum := sha256.Sum256(contents)
	return hex.EncodeToString(sum[:])
}
