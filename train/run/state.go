package run

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/model/checkpoint/safetensors"
)

// stateFormat is the format of state.safetensors. The file contains the tensors that
// train.Trainer.State returns. Its metadata contains the progress, the options, the rounding of the
// kernels, the fingerprint of the data set and a SHA-256 of the whole file.
//
// The first Open writes the file, without tensors. A folder with a log or a checkpoint but without
// this file has therefore lost it.
const stateFormat = "mquine-state/3"

// countsFormat is the format of earlier versions. It lacks the options, the fingerprint and the
// SHA-256.
const countsFormat = "mquine-state/2"

// Keys of the metadata.
const (
	formatKey   = "format"
	optionsKey  = "options"
	roundingKey = "rounding" // missing in states from earlier versions
	dataPrefix  = "data."
	sumKey      = "sha256"
)

func (r *Run) writeState(ctx context.Context) error {
	p := &r.progress
	metadata := map[string]string{
		formatKey: stateFormat, optionsKey: r.Recipe.Line(), roundingKey: r.rounding,
		"epoch": strconv.Itoa(p.epoch), "steps": strconv.Itoa(p.steps),
		"best": strconv.FormatFloat(p.best, 'g', -1, 64), "best_epoch": strconv.Itoa(p.bestEpoch),
		"waited": strconv.Itoa(p.waited), "finished": p.stopped,
	}
	for key, value := range r.data {
		metadata[dataPrefix+key] = value
	}
	var tensors []safetensors.Float32
	if p.epoch > 0 {
		tensors = r.trainer.State()
	}
	return writeSummed(ctx, r.path(stateName), metadata, tensors)
}

// noSum takes the place of the SHA-256 in the file while the SHA-256 is computed.
var noSum = strings.Repeat("0", 2*sha256.Size)

// writeSummed writes a file of tensors with the SHA-256 of the whole file in its metadata.
func writeSummed(ctx context.Context, path string, metadata map[string]string, tensors []safetensors.Float32) error {
	metadata[sumKey] = noSum
	h := sha256.New()
	if err := safetensors.Write(atomicfile.Stoppable(ctx, h), metadata, tensors...); err != nil {
		return err
	}
	metadata[sumKey] = hex.EncodeToString(h.Sum(nil))
	return safetensors.WriteFile(ctx, path, metadata, tensors...)
}

// isWhole reports whether the SHA-256 of a file matches the one in its metadata.
func isWhole(ctx context.Context, file *safetensors.File) (bool, error) {
	contents, sum := file.Bytes(), file.Metadata()[sumKey]
	before, after, found := bytes.Cut(contents, []byte(sum))
	if !found || len(sum) != len(noSum) {
		return false, nil
	}
	h := sha256.New()
	for _, part := range [][]byte{before, []byte(noSum), after} {
		for piece := range slices.Chunk(part, 1<<20) {
			if _, err := atomicfile.Stoppable(ctx, h).Write(piece); err != nil {
				return false, err
			}
		}
	}
	return sum == hex.EncodeToString(h.Sum(nil)), nil
}

// lost is the advice in errors about missing or damaged files.
const lost = "restore it from a backup, or start a new run in another folder"

// readState reads the state, if there is one, except for its tensors.
func (r *Run) readState(ctx context.Context) (err error) {
	defer fault.Guard().Catch(&err) // the file is memory-mapped
	path := r.path(stateName)
	r.progress, r.data, r.rounding = progress{}, nil, ""
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return r.checkNothingTrained()
	}
	file, err := safetensors.Open(path)
	if err != nil {
		return fmt.Errorf("%w; if it is damaged, %s", err, lost)
	}
	defer file.Close()
	metadata := file.Metadata()
	format := metadata[formatKey]
	if format != stateFormat && format != countsFormat {
		return fmt.Errorf("%s has format %.80q, but this version of mquine reads only %s and %s",
			path, format, stateFormat, countsFormat)
	}
	if format == stateFormat || metadata[sumKey] != "" {
		switch whole, err := isWhole(ctx, file); {
		case err != nil:
			return err
		case !whole:
			return fmt.Errorf("%s is damaged: its SHA-256 does not match; %s", path, lost)
		}
	}
	if err := r.readCounts(metadata); err != nil || metadata[formatKey] == countsFormat {
		return err
	}
	r.rounding = metadata[roundingKey]
	r.data = Fingerprint{}
	for key, value := range metadata {
		if part, ok := strings.CutPrefix(key, dataPrefix); ok {
			r.data[part] = value
		}
	}
	if r.progress.epoch == 0 {
		return nil // options may change until an epoch has written a checkpoint
	}
	return r.checkOptions(metadata[optionsKey])
}

// readCounts reads the progress from the metadata and checks that it is consistent.
func (r *Run) readCounts(metadata map[string]string) (err error) {
	p := &r.progress
	bad := func(key, want string) error {
		return fmt.Errorf("%s: metadata %q is %.80q but must be %s: %s",
			r.path(stateName), key, metadata[key], want, lost)
	}
	for _, count := range []struct {
		key   string
		value *int
	}{{"epoch", &p.epoch}, {"steps", &p.steps}, {"best_epoch", &p.bestEpoch}, {"waited", &p.waited}} {
		if *count.value, err = strconv.Atoi(metadata[count.key]); err != nil || *count.value < 0 {
			return bad(count.key, "a whole number from 0")
		}
	}
	p.best, err = strconv.ParseFloat(metadata["best"], 64)
	if err != nil || math.IsNaN(p.best) || math.IsInf(p.best, 0) {
		return bad("best", "a finite number")
	}
	// Earlier versions also set this key when all epochs were done.
	if f := metadata["finished"]; strings.HasPrefix(f, stoppedEarly) {
		p.stopped = f
	}
	switch since := p.epoch - p.bestEpoch; {
	case p.epoch > r.Recipe.Epochs:
		return fmt.Errorf("%s has %d epochs, but epochs in %s is %d: restore the value, or set a larger one",
			r.path(stateName), p.epoch, r.path(ConfigFile), r.Recipe.Epochs)
	case p.epoch == 0 && p.steps > 0:
		return bad("steps", "0 before the first epoch")
	case since < 0:
		return bad("best_epoch", fmt.Sprintf("at most %d, the last epoch", p.epoch))
	case p.waited > since || p.bestEpoch == 0 && p.waited > 0:
		return bad("waited", fmt.Sprintf("at most the number of validations since epoch %d, the best", p.bestEpoch))
	}
	return nil
}

// restore copies the tensors of the state into the trainer.
func (r *Run) restore() (err error) {
	defer fault.Guard().Catch(&err) // the file is memory-mapped
	if r.progress.epoch == 0 {
		return nil
	}
	file, err := safetensors.Open(r.path(stateName))
	if err != nil {
		return err
	}
	defer file.Close()
	for _, t := range r.trainer.State() {
		values, err := file.Float32(t.Name)
		if err != nil {
			return fmt.Errorf("%w: the state does not match config.yaml and the data set", err)
		}
		if len(values) != len(t.Values) {
			return fmt.Errorf("%s: tensor %q has %d entries, but config.yaml and the data set need %d",
				r.path(stateName), t.Name, len(values), len(t.Values))
		}
		copy(t.Values, values)
	}
	if steps := r.progress.epoch * r.trainer.StepsPerEpoch(); r.progress.steps != steps {
		return fmt.Errorf("%s: metadata \"steps\" is %d, but %d epochs on this data set have %d steps: %s",
			r.path(stateName), r.progress.steps, r.progress.epoch, steps, lost)
	}
	r.trainer.Resume(r.progress.epoch)
	return nil
}
