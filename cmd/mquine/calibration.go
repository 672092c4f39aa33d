package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/compressed"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/metrics/classify"
)

// calibrationSchema names the format of the files that --calibration writes and reads.
const calibrationSchema = "mquine.calibration/1"

// calibrationFile is the contents of a file with the calibration of a checkpoint.
type calibrationFile struct {
	Schema     string             `json:"schema"`
	Provenance metrics.Provenance `json:"provenance"`
	// VocabularySHA256 is the checksum of the labels (subject.vocabularyDigest). Files of earlier versions
	// lack it.
	VocabularySHA256 string `json:"vocabulary_sha256,omitempty"`
	// Side is the side of the queries whose scores were calibrated, or "both". Negatives says where
	// the false triples came from.
	Side      string `json:"side"`
	Negatives string `json:"negatives"`
	classify.Calibration

	path string // where the file is, for error messages
}

// calibrated holds the flag --calibration of the commands that turn scores into probabilities.
type calibrated struct {
	calibrationFile string
}

func (c *calibrated) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.calibrationFile, "calibration", "",
		"add probabilities, with the calibration in `FILE` (see mquine classify)")
	inGroup(cmd, inputFlags, "calibration")
	markInput(cmd, "calibration")
}

// read reads the file that the flag names, or returns nil without the flag. A calibration for a
// different side is an error. Call read before long work, and of when the model is complete.
func (c *calibrated) read(ctx context.Context, side string) (*calibrationFile, error) {
	if c.calibrationFile == "" {
		return nil, nil
	}
	contents, err := compressed.ReadFile(ctx, c.calibrationFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the calibration %s: %w", c.calibrationFile, text.Cause(err))
	}
	file := &calibrationFile{path: c.calibrationFile}
	if err := json.Unmarshal(contents, file); err != nil || file.Schema != calibrationSchema {
		return nil, fmt.Errorf("%s is not a calibration (%s): write one with mquine classify --calibration",
			c.calibrationFile, calibrationSchema)
	}
	if err := file.Check(); err != nil {
		return nil, fmt.Errorf("the calibration %s is damaged (%w): write it again with mquine classify --calibration",
			c.calibrationFile, err)
	}
	if file.Side != side {
		return nil, fmt.Errorf("the calibration %s is for --side %s, not for --side %s: write another with "+
			"mquine classify --side %[3]s --calibration", c.calibrationFile, file.Side, side)
	}
	return file, nil
}

// of returns the calibration in the file, or nil for no file. A calibration for different checkpoints,
// labels or weights is an error.
func (f *calibrationFile) of(ctx context.Context, s *subject) (*classify.Calibration, error) {
	if f == nil {
		return nil, nil
	}
	if err := s.digest(ctx); err != nil {
		return nil, err
	}
	if given := s.described(); given.Parameters() != f.Provenance.Checkpoint.Parameters() {
		return nil, fmt.Errorf("the calibration %s is for other scores, of %s: write one for %s with "+
			"mquine classify --calibration", f.path, f.Provenance.Checkpoint.PathText(), given.PathText())
	}
	if f.VocabularySHA256 != "" && f.VocabularySHA256 != s.vocabularyDigest() {
		return nil, fmt.Errorf("the calibration %s is for %s with other labels of entities or relations: write "+
			"another with mquine classify --calibration", f.path, f.Provenance.Checkpoint.PathText())
	}
	return &f.Calibration, nil
}
