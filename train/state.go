package train

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/mquine/mquine/model/checkpoint/safetensors"
)

// stateFormat names the format of state.safetensors: the tensors of model.safetensors with prefixes,
// and counts in the metadata. Random numbers need no state, because every draw is made from
// the seed, the epoch, the step and the query.
const stateFormat = "mquine-state/2"

// The prefixes of the tensors.
const (
	valuePrefix   = "parameter."
	firstPrefix   = "moment1."
	secondPrefix  = "moment2."
	averagePrefix = "average."
)

// stateTensors returns the tensors of the state, whose values are the trainer's own.
func (t *Trainer) stateTensors() []safetensors.Float32 {
	var tensors []safetensors.Float32
	for i, table := range t.optimiser.tables {
		shape := []int{len(table.values) / table.width, table.width}
		add := func(prefix string, values []float32, shape []int) {
			if values != nil {
				tensors = append(tensors, safetensors.Float32{Name: prefix + table.name, Shape: shape, Values: values})
			}
		}
		add(valuePrefix, table.values, shape)
		add(firstPrefix, table.first, shape)
		add(secondPrefix, table.second, shape)
		if t.average != nil {
			add(averagePrefix, t.average.Tensors()[i], shape)
		}
	}
	return tensors
}

func (r *Run) writeState(ctx context.Context) error {
	p := &r.progress
	return safetensors.WriteFile(ctx, r.path(stateName), map[string]string{
		"format": stateFormat, "epoch": strconv.Itoa(p.epoch), "steps": strconv.Itoa(p.steps),
		"best": strconv.FormatFloat(p.best, 'g', -1, 64), "best_epoch": strconv.Itoa(p.bestEpoch),
		"waited": strconv.Itoa(p.waited), "finished": p.stopped,
	}, r.trainer.stateTensors()...)
}

// readState reads the counts, if there is a state.
func (r *Run) readState() error {
	if _, err := os.Stat(r.path(stateName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	file, err := safetensors.Open(r.path(stateName))
	if err != nil {
		return err
	}
	defer file.Close()
	metadata := file.Metadata()
	if f := metadata["format"]; f != stateFormat {
		return fmt.Errorf("%s has format %.80q, and this version of mquine reads %s", r.path(stateName), f, stateFormat)
	}
	p := &r.progress
	for key, value := range map[string]*int{"epoch": &p.epoch, "steps": &p.steps, "best_epoch": &p.bestEpoch, "waited": &p.waited} {
		if *value, err = strconv.Atoi(metadata[key]); err != nil {
			return fmt.Errorf("%s: metadata %q is %.80q, which is no whole number", r.path(stateName), key, metadata[key])
		}
	}
	if p.best, err = strconv.ParseFloat(metadata["best"], 64); err != nil {
		return fmt.Errorf("%s: metadata %q is %.80q, which is no number", r.path(stateName), "best", metadata["best"])
	}
	// Earlier versions wrote here, too, that all epochs were done.
	if f := metadata["finished"]; strings.HasPrefix(f, stoppedEarly) {
		p.stopped = f
	}
	return nil
}

// restore puts the trainer where the state was written.
func (r *Run) restore() error {
	if r.progress.epoch == 0 {
		return nil
	}
	file, err := safetensors.Open(r.path(stateName))
	if err != nil {
		return err
	}
	defer file.Close()
	for _, t := range r.trainer.stateTensors() {
		values, err := file.Float32(t.Name)
		if err != nil {
			return fmt.Errorf("%w: it is not the state of this configuration and data set", err)
		}
		if len(values) != len(t.Values) {
			return fmt.Errorf("%s: tensor %q has %d entries, and the configuration and the data set need %d", r.path(stateName), t.Name, len(values), len(t.Values))
		}
		copy(t.Values, values)
	}
	r.trainer.epoch = r.progress.epoch
	r.trainer.optimiser.resume(r.progress.steps)
	return nil
}
