package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/rank"
)

// The files of a run.
const (
	configName     = "config.yaml"
	logName        = "log.jsonl"
	stateName      = "state.safetensors"
	bestName       = "best"
	lastName       = "last"
	lossPlotName   = "loss.svg"
	metricPlotName = "validation.svg"

	// dataKey is the key of config.yaml for the data set.
	dataKey = "data"
)

// Run is a training in a folder, where it can be taken up again after any interruption:
//
//	config.yaml         the data set and all options
//	log.jsonl           an Epoch a line
//	last/               the checkpoint of the last epoch
//	best/               that of the best validated epoch
//	loss.svg, validation.svg
//	state.safetensors   what the next epoch needs
//
// The state is written last: an epoch is done when it is there, and one that is not done is made again,
// to the same bytes.
type Run struct {
	Dir    string
	Config Config
	Graph  *kg.Graph

	lock     *os.File // nil in a finished run
	metric   metric
	trainer  *Trainer
	progress progress
	log      []Epoch
}

// stoppedEarly begins progress.stopped.
const stoppedEarly = "stopped early"

// progress is the part of the state that is no tensor.
type progress struct {
	epoch, steps int
	best         float64
	bestEpoch    int    // 0 before the first validation
	waited       int    // validations since the best
	stopped      string // why, if the training stopped early
}

// Create makes the folder of a new run, on the data set g that is opened by the name data. It must not
// exist, and appears with its configuration in it.
func Create(dir, data string, g *kg.Graph, c Config) error {
	if err := c.checkOn(g); err != nil {
		return err
	}
	text, err := configText(data, c)
	if err != nil {
		return err
	}
	return createFolder(dir, map[string][]byte{configName: text})
}

// configText is what config.yaml holds.
func configText(data string, c Config) ([]byte, error) {
	text, err := dataLine(data)
	return append(text, c.YAML()...), err
}

// dataLine writes the name or the folder of a data set as lines of YAML.
func dataLine(data string) (text []byte, err error) {
	if strings.ContainsRune(data, filepath.Separator) {
		if data, err = filepath.Abs(data); err != nil {
			return nil, err
		}
	}
	name, err := json.Marshal(data) // a string of JSON is one of YAML
	return fmt.Appendf(nil, "# the data set: its name, or its folder\n%s: %s\n", dataKey, name), err
}

// createFolder makes a folder, which appears with its files in it and must not exist.
func createFolder(dir string, files map[string][]byte) (err error) {
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s exists already: go on with it by --resume, remove it, or choose another folder", dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	made, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("making %s: %w", dir, err), os.RemoveAll(made))
		}
	}()
	if err := os.Chmod(made, 0o755); err != nil {
		return err
	}
	for name, data := range files {
		if err := writeFile(filepath.Join(made, name), data); err != nil {
			return err
		}
	}
	return os.Rename(made, dir)
}

func writeFile(path string, data []byte) error {
	return rank.WriteFile(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// OpenRun opens the run in a folder, at the epoch that it has come to, and keeps other processes from
// it until it is closed. A run that is finished already can be opened too.
func OpenRun(ctx context.Context, dir string, m Machine) (*Run, error) {
	r := &Run{Dir: filepath.Clean(dir), Config: Default()}
	if err := r.open(ctx, m); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close lets other processes work in the folder.
func (r *Run) Close() error {
	if r.lock == nil {
		return nil
	}
	err := r.lock.Close()
	r.lock = nil
	return err
}

func (r *Run) open(ctx context.Context, m Machine) error {
	// A finished run is read without the lock, and perhaps from a disk that cannot be written.
	if _, err := r.read(); err != nil {
		return err
	}
	if r.Finished() != "" {
		return r.readLog()
	}
	var err error
	if r.lock, err = lock(r.path(configName)); err != nil {
		return err
	}
	data, err := r.read() // it may have gone on before the lock
	if err != nil {
		return err
	}
	if r.Finished() != "" {
		return r.readLog()
	}
	if r.Graph, err = kg.Open(ctx, data); err != nil {
		return err
	}
	if err := r.Config.checkOn(r.Graph); err != nil {
		return err
	}
	if r.trainer, err = NewTrainer(ctx, r.Config, r.Graph, m); err != nil {
		return err
	}
	if err := r.restore(); err != nil {
		return err
	}
	if err := sweep(r.Dir, r.path(lastName), r.path(bestName)); err != nil {
		return err
	}
	return r.readLog()
}

// read reads the configuration and how far the run has come, and returns the name of the data set.
func (r *Run) read() (data string, err error) {
	path := r.path(configName)
	file, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s is not the folder of a training: it has no %s", r.Dir, configName)
	case err != nil:
		return "", err
	}
	defer file.Close()
	others, err := r.Config.Read(file, path, dataKey)
	if err != nil {
		return "", err
	}
	if others[dataKey] == "" {
		return "", fmt.Errorf("%s: there is no %s in it, the name of the data set", path, dataKey)
	}
	if r.metric, err = parseMetric(r.Config.StopMetric); err != nil {
		return "", err
	}
	return others[dataKey], r.readState()
}

func (r *Run) path(name ...string) string {
	return filepath.Join(append([]string{r.Dir}, name...)...)
}

// Finished says why a finished run ended, and is empty while there are epochs to come.
func (r *Run) Finished() string {
	if r.progress.stopped == "" && r.progress.epoch >= r.Config.Epochs {
		return fmt.Sprintf("all %d epochs are done", r.progress.epoch)
	}
	return r.progress.stopped
}

// Epoch returns the number of epochs done, and Best the best of them with its metric, or 0 if none
// has been validated.
func (r *Run) Epoch() int           { return r.progress.epoch }
func (r *Run) Best() (int, float64) { return r.progress.bestEpoch, r.progress.best }
func (r *Run) Triples() int         { return len(r.trainer.triples) }

// sweep removes what a killed process left half written in folders.
func sweep(folders ...string) error {
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") {
				continue
			}
			if err := os.RemoveAll(filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Train makes the epochs that are missing, and calls report after each, when it is safely on the
// disk. When ctx is cancelled, the current epoch is lost and nothing else.
func (r *Run) Train(ctx context.Context, report func(Epoch)) error {
	return r.trainTo(ctx, r.Config.Epochs, report)
}

// trainTo is Train up to an epoch.
func (r *Run) trainTo(ctx context.Context, last int, report func(Epoch)) error {
	for r.progress.stopped == "" && r.progress.epoch < last {
		before := proc.ProcessorTime()
		e, err := r.trainer.Epoch(ctx)
		if err != nil {
			return r.explain(err)
		}
		c := &r.Config
		r.progress.epoch, r.progress.steps = e.Epoch, r.trainer.optimiser.step
		if c.ValidEvery > 0 && (e.Epoch%c.ValidEvery == 0 || e.Epoch == c.Epochs) {
			if err := r.validate(ctx, &e); err != nil {
				return err
			}
		}
		e.ProcessorSeconds = (proc.ProcessorTime() - before).Seconds()
		if c.Patience > 0 && r.progress.waited >= c.Patience {
			r.progress.stopped = fmt.Sprintf(stoppedEarly+", after epoch %d: no better %s in %d validations", e.Epoch, c.StopMetric, c.Patience)
		}
		r.log = append(r.log, e)
		if err := r.keep(ctx, e); err != nil {
			return err
		}
		report(e)
	}
	return nil
}

// explain adds to an error where the last good parameters are.
func (r *Run) explain(err error) error {
	if errors.Is(err, context.Canceled) || r.progress.epoch == 0 {
		return err
	}
	return fmt.Errorf("%w; %s is the checkpoint of epoch %d", err, r.path(lastName), r.progress.epoch)
}

func (r *Run) validate(ctx context.Context, e *Epoch) (err error) {
	start := time.Now()
	if e.Valid, err = r.trainer.Validate(ctx); err != nil {
		return err
	}
	e.ValidSeconds = time.Since(start).Seconds()
	p := &r.progress
	if m := r.metric.of(e.Valid); p.bestEpoch == 0 || m > p.best {
		p.best, p.bestEpoch, p.waited, e.Best = m, e.Epoch, 0, true
	} else {
		p.waited++
	}
	return nil
}

// keep writes all files of an epoch, the state last.
func (r *Run) keep(ctx context.Context, e Epoch) error {
	if err := r.save(ctx, lastName); err != nil {
		return err
	}
	if e.Best {
		if err := r.save(ctx, bestName); err != nil {
			return err
		}
	}
	if err := r.writeLog(); err != nil {
		return err
	}
	if err := r.plot(); err != nil {
		return err
	}
	return r.writeState(ctx)
}

// save writes the checkpoint last or best.
func (r *Run) save(ctx context.Context, name string) error {
	dir := r.path(name)
	metadata := map[string]string{
		"dataset": r.Graph.Name, "epoch": fmt.Sprint(r.progress.epoch), "training": r.Config.line(),
	}
	write := checkpoint.Save
	if _, err := os.Stat(dir); err == nil {
		write = checkpoint.Replace
	}
	return write(ctx, dir, r.trainer.Model(), r.Graph.Entities, r.Graph.Relations, metadata)
}

// line writes all options in one line.
func (c *Config) line() string {
	var parts []string
	for _, o := range c.Options() {
		parts = append(parts, o.Key+"="+o.Value.String())
	}
	return strings.Join(parts, " ")
}

// readLog reads the epochs that are done. What a killed run wrote beyond them is left out.
func (r *Run) readLog() error {
	data, err := os.ReadFile(r.path(logName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	line := 0
	for text := range bytes.Lines(data) {
		line++
		var e Epoch
		if err := json.Unmarshal(text, &e); err != nil {
			return fmt.Errorf("%s:%d: this is not the line of an epoch: restore the file, or remove it", r.path(logName), line)
		}
		if e.Epoch <= r.progress.epoch {
			r.log = append(r.log, e)
		}
	}
	return nil
}

func (r *Run) writeLog() error {
	return rank.WriteFile(r.path(logName), func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		for _, e := range r.log {
			if err := encoder.Encode(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// Log returns the epochs that are done.
func (r *Run) Log() []Epoch { return r.log }

// Model returns the model of the last epoch, or the initial one.
func (r *Run) Model() model.Model { return r.trainer.Model() }
