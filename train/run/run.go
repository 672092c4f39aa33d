// Package run stores a training run in a folder and resumes the run after any interruption.
//
// Begin with Create and Open, and then call Run.Train.
package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/internal/workdir"
	"github.com/mquine/mquine/train/recipe"
)

// The files of a run.
const (
	logName        = "log.jsonl"
	stateName      = "state.safetensors"
	bestName       = "best"
	lastName       = "last"
	lossPlotName   = "loss.svg"
	metricPlotName = "validation.svg"

	// parametersName is the file that contains the parameters and the metadata of a checkpoint.
	parametersName = "model.safetensors"
	// entitiesName and relationsName are the vocabularies of a checkpoint.
	entitiesName  = "entities.tsv"
	relationsName = "relations.tsv"
)

// Run is a training run in a folder:
//
//	config.yaml         the data set and all options
//	log.jsonl           one Epoch per line
//	last/               the checkpoint of the last epoch
//	best/               the checkpoint of the best validated epoch
//	loss.svg            a plot of the loss
//	validation.svg      a plot of the MRR on the validation split
//	state.safetensors   what the next epoch needs
//
// Each epoch writes the state last, and is done once the state is written. A run repeats an
// interrupted epoch, so it ends with the same bytes as an uninterrupted run. The plots may lack the
// last epochs while the run trains, and after a kill. If a file, an option or the data set contradicts
// the state, Open returns an error.
type Run struct {
	Dir    string
	Recipe recipe.Recipe
	Graph  *kg.Graph // nil if Open found the run finished
	// Notes holds a sentence for each check that was not possible, for a missing log, and for kernels that
	// round differently from the kernels of the epochs so far.
	Notes []string

	lock     *workdir.Lock // nil if the run was finished when it was opened
	data     Fingerprint   // fingerprint of the data set; nil if the state lacks it
	rounding string        // rounding of the kernels of the epochs so far; "" if the state lacks it
	trainer  *train.Trainer
	progress progress
	log      []Epoch
	logText  []byte // the lines of log
	plots    plotting
	failed   error // the error that TrainTo returned, or nil
	closed   bool
}

// stoppedEarly is the prefix of a nonempty progress.stopped.
const stoppedEarly = "stopped early"

// progress is the part of the state that is not a tensor.
type progress struct {
	epoch, steps int     // numbers of epochs and steps done
	best         float64 // best value of the metric so far
	bestEpoch    int     // 0 before the first validation
	waited       int     // validations since the best
	stopped      string  // why the run stopped early, or ""
}

// Options are the options of Open.
type Options struct {
	train.Machine
	// Epochs, if not 0, becomes the run's number of epochs, so a finished run can continue. The new number
	// must be larger than the number of epochs done.
	//
	// The run then ends with the same parameters as a run that had this number of epochs from the
	// start. Open returns an error if that is impossible: if the learning rate decays towards the
	// last epoch, if the run stopped early or would have stopped after its last epoch, or if patience
	// would count a validation that took place only because its epoch was the last. Without patience,
	// such a validation only matters for the best checkpoint, which may then belong to an epoch that
	// the longer run would not have validated.
	//
	// Open also refuses another number for a trial of a search, because all trials must have the same, and
	// for a run that cannot continue with its data set on the machine. If it refuses, the run does not change.
	Epochs int
	// Graph, if not nil, is the data set that the run began with, so Open does not read it from the disk.
	Graph *kg.Graph
	// Reading, if not nil, is called while the data set is read.
	Reading func(kg.OpenProgress)
}

// Open opens the run in a folder. Unless the run is finished, Open locks the folder until Close.
func Open(ctx context.Context, dir string, o Options) (*Run, error) {
	if o.Epochs != 0 {
		var err error
		if o.Graph, err = changeEpochs(ctx, dir, o); err != nil {
			return nil, err
		}
	}
	r := &Run{Dir: filepath.Clean(dir), Graph: o.Graph}
	if err := r.open(ctx, o); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close releases the lock of the folder. The run cannot train any more: Train returns an error if an epoch remains.
func (r *Run) Close() error {
	r.closed = true
	l := r.lock
	r.lock = nil
	return l.Close()
}

func (r *Run) open(ctx context.Context, o Options) error {
	// A finished run needs no lock and may be on a read-only disk.
	if _, err := r.read(ctx); err != nil {
		return err
	}
	if r.complete() {
		return r.check(ctx)
	}
	var err error
	if r.lock, err = workdir.Acquire(r.path(ConfigFile)); err != nil {
		return err
	}
	data, err := r.read(ctx) // again, because the file may have changed before the folder was locked
	if err != nil {
		return err
	}
	if err := r.check(ctx); err != nil || r.complete() {
		return err
	}
	if n := r.progress.epoch; n > 0 && len(r.log) == 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s is missing, so a new log begins with epoch %d", r.path(logName), n+1))
	}
	if err := r.openData(ctx, data, o); err != nil {
		return err
	}
	if r.trainer, err = train.NewTrainer(ctx, r.Recipe, r.Graph, o.Machine); err != nil {
		return err
	}
	r.checkRounding(o.Backend)
	if err := r.restore(); err != nil {
		return err
	}
	r.sweep()
	if err := r.writeVocabularies(); err != nil {
		return err
	}
	switch {
	case r.progress.epoch == 0:
		return r.writeState(ctx)
	case !r.has(lastName, parametersName):
		return r.save(ctx, lastName)
	}
	return nil
}

// openData reads the data set, unless the run has it, and checks that it suits the run.
func (r *Run) openData(ctx context.Context, data string, o Options) (err error) {
	if r.Graph == nil {
		if r.Graph, err = kg.Open(ctx, data, kg.ReportProgress(o.Reading)); err != nil {
			return err
		}
	}
	if err := r.checkData(); err != nil {
		return err
	}
	return r.Recipe.CheckData(r.Graph)
}

// complete reports whether the run is finished, its last checkpoint exists, and its checkpoints have
// vocabularies.
func (r *Run) complete() bool {
	return r.Finished() != "" && r.has(lastName, parametersName) && r.missingVocabularies() == nil
}

// has reports whether a file or a folder of the run exists.
func (r *Run) has(name ...string) bool {
	_, err := os.Stat(r.path(name...))
	return err == nil
}

// missingVocabularies lists the vocabularies that the folders of the checkpoints lack, each as its folder and
// its name.
func (r *Run) missingVocabularies() (missing [][2]string) {
	for _, dir := range []string{lastName, bestName} {
		for _, name := range []string{entitiesName, relationsName} {
			if r.has(dir) && !r.has(dir, name) {
				missing = append(missing, [2]string{dir, name})
			}
		}
	}
	return missing
}

// writeVocabularies writes the vocabularies that the folders of the checkpoints lack.
func (r *Run) writeVocabularies() error {
	for _, file := range r.missingVocabularies() {
		v := r.Graph.Entities
		if file[1] == relationsName {
			v = r.Graph.Relations
		}
		if err := kg.WriteVocabulary(r.path(file[:]...), v); err != nil {
			return err
		}
	}
	return nil
}

// checkData returns an error if the data set differs from the data set of the epochs so far.
func (r *Run) checkData() error {
	now := FingerprintOf(r.Graph)
	if r.progress.epoch > 0 {
		if r.data == nil {
			r.Notes = append(r.Notes, fmt.Sprintf("%s is from an earlier version and does not identify its data set, "+
				"so the data set cannot be checked; the next state will identify it",
				r.path(stateName)))
		} else if err := r.data.Check(now, r.Graph.Dir, r.Dir); err != nil {
			return err
		}
	}
	r.data = now
	return nil
}

// The two ways of kernels to round products and sums.
const (
	fusedRounding    = "fused multiply-adds"
	separateRounding = "separate products and sums"
)

// checkRounding adds a note if the kernels round differently from the kernels of the epochs so far.
func (r *Run) checkRounding(b *kernel.Backend) {
	now := fusedRounding
	if b.Tier == kernel.Generic {
		now = separateRounding
	}
	if r.progress.epoch > 0 && r.rounding != "" && r.rounding != now {
		r.Notes = append(r.Notes, fmt.Sprintf("%s was trained with %s, but the kernels of tier %v use %s, so the "+
			"result may differ from the result of an uninterrupted run", r.Dir, r.rounding, b.Tier, now))
	}
	r.rounding = now
}

// read reads the recipe and the progress, and returns the name of the data set.
func (r *Run) read(ctx context.Context) (data string, err error) {
	if r.Recipe, data, err = ReadRecipe(ctx, r.Dir); err != nil {
		return "", err
	}
	return data, r.readState(ctx)
}

func (r *Run) path(name ...string) string {
	return filepath.Join(append([]string{r.Dir}, name...)...)
}

// Finished returns why the run is finished, or "" if it is not.
func (r *Run) Finished() string {
	if r.progress.stopped == "" && r.progress.epoch >= r.Recipe.Epochs {
		switch r.progress.epoch {
		case 1:
			return "the only epoch is done"
		case 2:
			return "both epochs are done"
		}
		return fmt.Sprintf("all %d epochs are done", r.progress.epoch)
	}
	return r.progress.stopped
}

// ReadFinished returns why the run in a folder is finished, or "" if it is not. It needs neither the data set
// nor the lock.
func ReadFinished(ctx context.Context, dir string) (string, error) {
	r := &Run{Dir: filepath.Clean(dir)}
	if _, err := r.read(ctx); err != nil {
		return "", err
	}
	return r.Finished(), nil
}

// Epoch returns the number of epochs done.
func (r *Run) Epoch() int { return r.progress.epoch }

// Best returns the best validated epoch and its metric. The epoch is 0 if none was validated.
func (r *Run) Best() (epoch int, value float64) { return r.progress.bestEpoch, r.progress.best }

// Triples returns the number of distinct training triples of an unfinished run.
func (r *Run) Triples() int { return r.trainer.Triples() }

// sweep removes the temporary files of killed processes. It does not follow symbolic links, because
// their targets do not belong to the run.
func (r *Run) sweep() {
	atomicfile.Sweep(r.Dir)
	for _, name := range []string{lastName, bestName} {
		if info, err := os.Lstat(r.path(name)); err == nil && info.IsDir() {
			atomicfile.Sweep(r.path(name))
		}
	}
}

// Train trains the remaining epochs. After each epoch, once its files are synced to disk, it calls
// report, if not nil. If ctx is cancelled, the current epoch is lost. After an error, the parameters in
// memory belong to no epoch, so further calls return an error: close the run and open it again.
func (r *Run) Train(ctx context.Context, report func(Epoch)) error {
	return r.TrainTo(ctx, r.Recipe.Epochs, report)
}

// TrainTo is like Train, but stops after epoch last if the recipe has more epochs.
func (r *Run) TrainTo(ctx context.Context, last int, report func(Epoch)) error {
	last = min(last, r.Recipe.Epochs)
	for r.progress.stopped == "" && r.progress.epoch < last {
		if r.closed {
			return fmt.Errorf("run %s is closed: open it again", r.Dir)
		}
		if r.failed != nil {
			return fmt.Errorf("%s cannot continue after an error: open the run again (%w)", r.Dir, r.failed)
		}
		e, err := r.trainEpoch(ctx, last)
		if err != nil {
			r.failed = err
			r.completePlots()
			return err
		}
		if report != nil {
			report(e)
		}
	}
	return nil
}

// trainEpoch trains the next epoch, validates it if it is due, and writes its files. After an error,
// the progress and the log do not include the epoch. last is the last epoch to train.
func (r *Run) trainEpoch(ctx context.Context, last int) (e Epoch, err error) {
	former, logged, written := r.progress, len(r.log), len(r.logText)
	defer func() {
		if err != nil {
			r.progress, r.log, r.logText = former, r.log[:logged], r.logText[:written]
		}
	}()
	before := proc.ProcessorTime()
	if e.EpochResult, err = r.trainer.Epoch(ctx); err != nil {
		return e, r.explain(err)
	}
	c := &r.Recipe
	r.progress.epoch, r.progress.steps = e.Epoch, e.Epoch*r.trainer.StepsPerEpoch()
	if c.ValidEvery > 0 && (e.Epoch%c.ValidEvery == 0 || e.Epoch == c.Epochs) {
		if err := r.validate(ctx, &e); err != nil {
			return e, err
		}
	}
	e.ProcessorSeconds = (proc.ProcessorTime() - before).Seconds()
	if r.patienceSpent() && e.Epoch < c.Epochs {
		r.progress.stopped = fmt.Sprintf(stoppedEarly+", after epoch %d: no better %v in %s",
			e.Epoch, c.ValidMetric, text.Plural(c.Patience, "validation"))
	}
	if err := r.appendLog(e); err != nil {
		return e, err
	}
	r.plots.final = e.Epoch == last || r.progress.stopped != ""
	return e, r.keep(ctx, e)
}

// patienceSpent reports whether the last validations are as many without a better metric as patience
// allows.
func (r *Run) patienceSpent() bool {
	return r.Recipe.Patience > 0 && r.progress.waited >= r.Recipe.Patience
}

// explain adds the path of the last checkpoint to an error, if there is such a checkpoint and the
// error is not a cancellation.
func (r *Run) explain(err error) error {
	cancelled := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if cancelled || r.progress.epoch == 0 {
		return err
	}
	return fmt.Errorf("%w; %s is the checkpoint of epoch %d", err, r.path(lastName), r.progress.epoch)
}

// validate adds the result of a validation to an epoch and updates the best epoch.
func (r *Run) validate(ctx context.Context, e *Epoch) (err error) {
	start := time.Now()
	if e.Valid, err = r.trainer.Validate(ctx); err != nil {
		return err
	}
	e.ValidSeconds = time.Since(start).Seconds()
	p := &r.progress
	if m := e.Valid.Of(r.Recipe.ValidMetric); p.bestEpoch == 0 || m > p.best {
		p.best, p.bestEpoch, p.waited, e.Best = m, e.Epoch, 0, true
	} else {
		p.waited++
	}
	return nil
}

// keep writes all files of an epoch, the state last. Before each of them, it checks that the folder is still the run's.
func (r *Run) keep(ctx context.Context, e Epoch) error {
	writes := []func() error{func() error { return r.save(ctx, lastName) }}
	if e.Best {
		writes = append(writes, func() error { return r.save(ctx, bestName) })
	}
	writes = append(writes, r.writeLog, r.plotIfDue, func() error { return r.writeState(ctx) })
	for _, write := range writes {
		if err := r.lock.Check(); err != nil {
			return err
		}
		if err := write(); err != nil {
			if gone := r.lock.Check(); gone != nil {
				return gone // the reason for err
			}
			return err
		}
	}
	return nil
}

// save writes the checkpoint with the given name, last or best.
func (r *Run) save(ctx context.Context, name string) error {
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

// appendLog adds an epoch to the log in memory.
func (r *Run) appendLog(e Epoch) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	r.log, r.logText = append(r.log, e), append(append(r.logText, line...), '\n')
	return nil
}

func (r *Run) writeLog() error { return atomicfile.WriteBytes(r.path(logName), r.logText) }

// BestUpTo returns the best validated epoch up to the given epoch, and its metric. If the run has
// trained beyond that epoch, the log must contain all epochs.
func (r *Run) BestUpTo(epoch int) (best int, value float64, err error) {
	if r.progress.epoch <= epoch {
		return r.progress.bestEpoch, r.progress.best, nil
	}
	if len(r.log) == 0 || r.log[0].Epoch != 1 {
		return 0, 0, fmt.Errorf("%s does not have all epochs up to %d, which the search needs: restore it, or "+
			"move the folder elsewhere and let the search repeat the trial",
			r.path(logName), epoch)
	}
	for _, e := range r.log[:epoch] {
		if e.Best {
			best, value = e.Epoch, e.Valid.Of(r.Recipe.ValidMetric)
		}
	}
	return best, value, nil
}

// Log returns the epochs in the log.
func (r *Run) Log() []Epoch { return r.log }
