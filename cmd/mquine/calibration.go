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
	// Side is the side of the queries whose scores were calibrated, or "both". Negatives says where
	// the false triples came from.
	Side      string `json:"side"`
	Negatives string `json:"negatives"`
	classify.Calibration
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

// read reads the calibration that the flag names, or returns nil without the flag. A calibration
// for a different checkpoint or side is an error.
func (c *calibrated) read(ctx context.Context, s *subject, side string) (*classify.Calibration, error) {
	if c.calibrationFile == "" {
		return nil, nil
	}
	contents, err := compressed.ReadFile(ctx, c.calibrationFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the calibration %s: %w", c.calibrationFile, text.Cause(err))
	}
	var file calibrationFile
	if err := json.Unmarshal(contents, &file); err != nil || file.Schema != calibrationSchema {
		return nil, fmt.Errorf("%s is not a calibration (%s): write one with mquine classify --calibration",
			c.calibrationFile, calibrationSchema)
	}
	if err := file.Check(); err != nil {
		return nil, fmt.Errorf("the calibration %s is damaged (%w): write it again with mquine classify --calibration",
			c.calibrationFile, err)
	}
	if err := s.digest(ctx); err != nil {
		return nil, err
	}
	if given := s.described(); given.Parameters() != file.Provenance.Checkpoint.Parameters() {
		return nil, fmt.Errorf("the calibration %s is for other scores, of %s: write one for %s with "+
			"mquine classify --calibration", c.calibrationFile, file.Provenance.Checkpoint.PathText(), given.PathText())
	}
	if file.Side != side {
		return nil, fmt.Errorf("the calibration %s is for --side %s, not for --side %s: write another with "+
			"mquine classify --side %[3]s --calibration", c.calibrationFile, file.Side, side)
	}
	return &file.Calibration, nil
}
