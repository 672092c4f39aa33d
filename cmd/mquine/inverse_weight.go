package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
)

// inverseWeight is the flag --inverse-weight. The zero value, without the flag, keeps the weight of
// the checkpoint.
type inverseWeight struct{ weight *float64 }

const inverseWeightFlag = "inverse-weight"

func (w *inverseWeight) add(cmd *cobra.Command) {
	cmd.Flags().Var(w, inverseWeightFlag, "score (h, r, ?) with (1 − `W`) s(h, r, t) + W s(t, r⁻¹, h); needs "+
		"reciprocal relations (default: as in the checkpoint, usually 0)")
	inGroup(cmd, inputFlags, inverseWeightFlag)
}

func (w *inverseWeight) String() string {
	if w.weight == nil {
		return ""
	}
	return strconv.FormatFloat(*w.weight, 'g', -1, 64)
}

func (w *inverseWeight) Type() string { return "W" }

func (w *inverseWeight) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return errors.New("must be a number from 0 to 1")
	}
	w.weight = &v
	return nil
}

// apply gives the model of a checkpoint the weight of the flag. Of several checkpoints, those without
// reciprocal relations keep their scores.
func (w *inverseWeight) apply(c *checkpoint.Checkpoint, several bool) (err error) {
	config := c.Model.Config()
	switch {
	case w.weight == nil || several && !config.Reciprocal:
		return nil
	case *w.weight > 0 && !config.Reciprocal:
		return fmt.Errorf("--%s: the %s model in %s has no reciprocal relations: leave out the flag",
			inverseWeightFlag, config.Model, c.Path)
	}
	c.Model, err = model.WithInverseWeight(c.Model, *w.weight)
	return err
}
