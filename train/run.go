package train

import (
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

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/train/recipe"
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

	// parametersName is the file of a checkpoint that has its metadata.
	parametersName = "model.safetensors"

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
// to the same bytes. What does not fit to the state, be it a file of the folder, an option or the data set, is an
// error: a run ends with those bytes or not at all.
type Run struct {
	Dir    string
	Recipe recipe.Recipe
	Graph  *kg.Graph
	// Notes tells what could not be checked. One sentence each.
	Notes []string

	lock     *os.File    // nil in a finished run
	data     fingerprint // of the data set that it is trained on; nil if the state does not tell
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
func Create(dir, data string, g *kg.Graph, c recipe.Recipe) error {
	if err := c.CheckData(g); err != nil {
		return err
	}
	text, err := configText(data, c)
	if err != nil {
		return err
	}
	return createFolder(dir, map[string][]byte{configName: text})
}

// configText is what config.yaml holds.
func configText(data string, c recipe.Recipe) ([]byte, error) {
	text, err := dataLine(data)
	return append(text, c.YAML()...), err
}

// dataLine writes the name or the folder of a data set as lines of YAML.
func dataLine(data string) (line []byte, err error) {
	if strings.ContainsRune(data, filepath.Separator) {
		if data, err = filepath.Abs(data); err != nil {
			return nil, err
		}
	}
	name, err := json.Marshal(data) // a string of JSON is one of YAML, which takes no control characters
	return fmt.Appendf(nil, "# the data set: its name, or its folder\n%s: %s\n", dataKey, text.JSON(name)), err
}

// createFolder makes a folder, which appears with its files in it and must not exist.
func createFolder(dir string, files map[string][]byte) error {
	err := atomicfile.Folder(dir, func(temporary string) error {
		for name, data := range files {
			if err := atomicfile.WriteBytes(filepath.Join(temporary, name), data); err != nil {
				return err
			}
		}
		return nil
	})
	if exists := (*atomicfile.ExistsError)(nil); errors.As(err, &exists) {
		return fmt.Errorf("%s exists already: go on with it by --resume, remove it, or choose another folder",
			exists.Path)
	}
	return err
}

// OpenRun opens the run in a folder, at the epoch that it has come to, and keeps other processes from
// it until it is closed. A run that is finished already can be opened too.
func OpenRun(ctx context.Context, dir string, m Machine) (*Run, error) {
	r := &Run{Dir: filepath.Clean(dir)}
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
	if _, err := r.read(ctx); err != nil {
		return err
	}
	if r.complete() {
		return r.check(ctx)
	}
	var err error
	if r.lock, err = lock(r.path(configName)); err != nil {
		return err
	}
	data, err := r.read(ctx) // it may have gone on before the lock
	if err != nil {
		return err
	}
	if err := r.check(ctx); err != nil || r.complete() {
		return err
	}
	if r.Graph, err = kg.Open(ctx, data, kg.ReportProgress(m.Reading)); err != nil {
		return err
	}
	if err := r.checkData(); err != nil {
		return err
	}
	if err := r.Recipe.CheckData(r.Graph); err != nil {
		return err
	}
	if r.trainer, err = NewTrainer(ctx, r.Recipe, r.Graph, m); err != nil {
		return err
	}
	if err := r.restore(); err != nil {
		return err
	}
	r.sweep()
	switch {
	case r.progress.epoch == 0:
		return r.writeState(ctx)
	case !r.hasLast():
		return r.save(ctx, lastName)
	}
	return nil
}

// complete tells whether there is nothing left to do.
func (r *Run) complete() bool { return r.Finished() != "" && r.hasLast() }

func (r *Run) hasLast() bool {
	_, err := os.Stat(r.path(lastName, parametersName))
	return err == nil
}

// checkData compares the data set with the one of the epochs so far.
func (r *Run) checkData() error {
	now := fingerprintOf(r.Graph)
	if r.progress.epoch > 0 {
		if r.data == nil {
			r.Notes = append(r.Notes, fmt.Sprintf("%s, of an earlier version, does not tell the data set that it was "+
				"trained on, so that it cannot be compared; the next epoch's will",
				r.path(stateName)))
		} else if err := r.data.check(now, r.Graph.Dir, r.Dir); err != nil {
			return err
		}
	}
	r.data = now
	return nil
}

// read reads the configuration and how far the run has come, and returns the name of the data set.
func (r *Run) read(ctx context.Context) (data string, err error) {
	if data, err = r.readConfig(ctx); err != nil {
		return "", err
	}
	return data, r.readState(ctx)
}

// readConfig reads the configuration and returns the name of the data set.
func (r *Run) readConfig(ctx context.Context) (data string, err error) {
	path := r.path(configName)
	r.Recipe = recipe.Default()
	file, err := input.Open(ctx, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s is not the folder of a training: it has no %s", r.Dir, configName)
	case err != nil:
		return "", err
	}
	defer file.Close()
	others, err := r.Recipe.Read(file, path, dataKey)
	if err != nil {
		return "", err
	}
	if others[dataKey] == "" {
		return "", fmt.Errorf("%s: there is no %s in it, the name of the data set", path, dataKey)
	}
	return others[dataKey], nil
}

func (r *Run) path(name ...string) string {
	return filepath.Join(append([]string{r.Dir}, name...)...)
}

// Finished says why a finished run ended, and is empty while there are epochs to come.
func (r *Run) Finished() string {
	if r.progress.stopped == "" && r.progress.epoch >= r.Recipe.Epochs {
		return fmt.Sprintf("all %d epochs are done", r.progress.epoch)
	}
	return r.progress.stopped
}

// Epoch returns the number of epochs done, and Best the best of them with its metric, or 0 if none
// has been validated.
func (r *Run) Epoch() int           { return r.progress.epoch }
func (r *Run) Best() (int, float64) { return r.progress.bestEpoch, r.progress.best }
func (r *Run) Triples() int         { return len(r.trainer.triples) }

// sweep removes the temporary files of killed processes. A checkpoint's folder that is a symbolic link leads to a
// place that is not the run's to tidy.
func (r *Run) sweep() {
	atomicfile.Sweep(r.Dir)
	for _, name := range []string{lastName, bestName} {
		if info, err := os.Lstat(r.path(name)); err == nil && info.IsDir() {
			atomicfile.Sweep(r.path(name))
		}
	}
}

// Train makes the epochs that are missing, and calls report after each, when it is safely on the
// disk. When ctx is cancelled, the current epoch is lost and nothing else.
func (r *Run) Train(ctx context.Context, report func(Epoch)) error {
	return r.trainTo(ctx, r.Recipe.Epochs, report)
}

// trainTo is Train up to an epoch.
func (r *Run) trainTo(ctx context.Context, last int, report func(Epoch)) error {
	for r.progress.stopped == "" && r.progress.epoch < last {
		before := proc.ProcessorTime()
		e, err := r.trainer.Epoch(ctx)
		if err != nil {
			return r.explain(err)
		}
		c := &r.Recipe
		r.progress.epoch, r.progress.steps = e.Epoch, r.trainer.optimiser.step
		if c.ValidEvery > 0 && (e.Epoch%c.ValidEvery == 0 || e.Epoch == c.Epochs) {
			if err := r.validate(ctx, &e); err != nil {
				return err
			}
		}
		e.ProcessorSeconds = (proc.ProcessorTime() - before).Seconds()
		if c.Patience > 0 && r.progress.waited >= c.Patience {
			r.progress.stopped = fmt.Sprintf(stoppedEarly+", after epoch %d: no better %v in %d validations", e.Epoch, &c.StopMetric, c.Patience)
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
	if m := e.Valid.Of(r.Recipe.StopMetric); p.bestEpoch == 0 || m > p.best {
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
	if err := checkLocked(r.lock, r.path(configName)); err != nil {
		return err
	}
	dir := r.path(name)
	metadata := map[string]string{
		"dataset": r.Graph.Name, "epoch": fmt.Sprint(r.progress.epoch), "training": r.Recipe.Line(),
	}
	write := checkpoint.Save
	if _, err := os.Stat(dir); err == nil {
		write = checkpoint.Replace
	}
	return write(ctx, dir, r.trainer.Model(), r.Graph.Entities, r.Graph.Relations, metadata)
}

func (r *Run) writeLog() error {
	return atomicfile.Write(r.path(logName), func(w io.Writer) error {
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
