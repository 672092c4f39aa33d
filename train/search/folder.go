package search

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/internal/workdir"
	"github.com/mquine/mquine/train/recipe"
	"github.com/mquine/mquine/train/run"
)

// The files of a search, in addition to run.SearchFile.
const (
	spaceName      = "space.yaml"
	trialsName     = "trials.jsonl"
	bestConfigName = "best.yaml"
	trialsPlotName = "trials.svg"
)

// Folder is a random search with asynchronous successive halving (ASHA; Li et al., 2020) whose trials are
// on disk. Every trial trains up to the first rung. The best third of the trials at a rung continue to the
// next rung. A search can resume after any interruption. Its files are:
//
//	search.yaml    the Plan, with the data set
//	space.yaml     the space, with all options
//	trials.jsonl   one Trial per line, for each rung that a trial has reached
//	trials.svg     a plot of the trials
//	best.yaml      the recipe of the best trial
//	trial-001, …   the run.Run of each trial
//
// The recipe of a trial has the space's full number of epochs, and a rung only pauses the run. If
// the trial is promoted, its run resumes. At the last rung, the trial has the same parameters as an
// ordinary run with its recipe.
type Folder struct {
	Dir   string
	Plan  Plan
	Space *Space
	Graph *kg.Graph // the trials share it
	Rungs []int
	// Begin and End, if not nil, are called before and after each job.
	Begin func(Job, *run.Run)
	End   func(Trial)

	machine   train.Machine
	lock      *workdir.Lock
	scheduler *scheduler
	trials    []Trial
}

// Trial is the result of a trial at a rung: a line of trials.jsonl.
type Trial struct {
	Trial   int                        `json:"trial"`
	Epochs  int                        `json:"epochs"`  // the rung
	Options map[string]json.RawMessage `json:"options"` // the open options
	// Value is the best value of Metric on the validation split, up to epoch Epochs.
	Metric           string  `json:"metric"`
	Value            float64 `json:"value"`
	BestEpoch        int     `json:"best_epoch"`
	ProcessorMinutes float64 `json:"processor_minutes"` // total of all epochs so far
	// StoppedAfter is the epoch after which the trial stopped early (patience), or 0. It is less than
	// Epochs.
	StoppedAfter int    `json:"stopped_after,omitempty"`
	Failed       string `json:"failed,omitempty"` // why the trial failed, or ""
}

// Trained returns the number of epochs that the trial has trained for its result.
func (t Trial) Trained() int { return cmp.Or(t.StoppedAfter, t.Epochs) }

// Create creates the folder of a new search, which must not exist. It returns an error if the search
// would never try one of the choices of an open option, because all recipes with it are invalid, or if a
// range has a single value after rounding. It ignores p.SameTrial and p.Fingerprint.
func Create(dir string, g *kg.Graph, s *Space, p Plan) error {
	if len(g.Splits[kg.Valid]) == 0 {
		return fmt.Errorf("%s has no validation triples, but the search compares trials on the validation "+
			"split: use a data set with this split (\"mquine data split\" makes one)", text.DataSet(g.Name))
	}
	rungs, err := rungsOf(s.fixed, p.Rungs)
	if err != nil {
		return err
	}
	if err := s.checkRanges(); err != nil {
		return err
	}
	s.triples, p.SameTrial = len(g.Splits[kg.Train]), sameTrial
	p.Fingerprint = run.FingerprintOf(g)
	plan, err := p.yaml()
	if err != nil {
		return err
	}
	if err := new(Plan).read(bytes.NewReader(plan), run.SearchFile); err != nil { // as Open reads it
		return err
	}
	job, _, err := newScheduler(s, &p, rungs).next()
	if err != nil {
		return err
	}
	if err := s.checkChoices(p.Seed); err != nil {
		return err
	}
	if err := job.Recipe.CheckData(g); err != nil {
		return err
	}
	return workdir.Create(dir, map[string][]byte{run.SearchFile: plan, spaceName: s.YAML()})
}

// Options are the options of Open.
type Options struct {
	train.Machine
	// Trials, if not 0, becomes the largest number of trials of the search, so a complete search can
	// continue. Open returns an error, and the search does not change, if the search has a larger number or no
	// limit. A complete search has promoted up to a third of the trials at a rung, rounded up, so it may now
	// promote trials that it would not have promoted with the new number from the start.
	Trials int
	// Graph, if not nil, is the data set that the search began with, so Open does not read it from the disk.
	Graph *kg.Graph
	// Reading, if not nil, is called while the data set is read.
	Reading func(kg.OpenProgress)
}

// Open opens the search in a folder and locks the folder until Close.
func Open(ctx context.Context, dir string, o Options) (*Folder, error) {
	f := &Folder{Dir: filepath.Clean(dir), Graph: o.Graph, machine: o.Machine}
	err := f.open(ctx, o)
	if err == nil && o.Trials == 0 {
		return f, nil
	}
	if err == nil {
		err = f.writePlan()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	o.Trials, o.Graph = 0, f.Graph
	return Open(ctx, dir, o) // the lock was on the former file of the plan
}

func (f *Folder) writePlan() error {
	plan, err := f.Plan.yaml()
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(f.path(run.SearchFile), plan)
}

// Close releases the lock of the folder.
func (f *Folder) Close() error {
	l := f.lock
	f.lock = nil
	return l.Close()
}

func (f *Folder) path(name string) string { return filepath.Join(f.Dir, name) }

// lockPlan locks the folder and then reads the plan, so another process cannot replace it in between.
func (f *Folder) lockPlan(ctx context.Context) error {
	var plan []byte
	var err error
	if f.lock, err = workdir.Acquire(f.path(run.SearchFile)); err == nil {
		plan, err = input.ReadFile(ctx, f.path(run.SearchFile))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is not the folder of a search: it has no %s", f.Dir, run.SearchFile)
	case err != nil:
		return err
	}
	return f.Plan.read(bytes.NewReader(plan), f.path(run.SearchFile))
}

// extend raises the largest number of trials in the plan.
func (f *Folder) extend(trials int) error {
	switch former := f.Plan.Trials; {
	case former == 0:
		return fmt.Errorf("the search in %s has no limit on its trials, so their number (--trials) cannot be raised",
			f.Dir)
	case trials < former:
		return fmt.Errorf("the search in %s has up to %s: give a larger number (--trials)", f.Dir,
			text.Plural(former, "trial"))
	}
	f.Plan.Trials = trials
	return nil
}

// open opens the folder. It does not write a new number of trials.
func (f *Folder) open(ctx context.Context, o Options) error {
	if err := f.lockPlan(ctx); err != nil {
		return err
	}
	if o.Trials != 0 {
		if err := f.extend(o.Trials); err != nil {
			return err
		}
	}
	file, err := input.Open(ctx, f.path(spaceName))
	if err != nil {
		return err
	}
	defer file.Close()
	if f.Space, err = ReadSpace(file, f.path(spaceName), recipe.Default()); err != nil {
		return err
	}
	if f.Graph == nil {
		if f.Graph, err = kg.Open(ctx, f.Plan.Data, kg.ReportProgress(o.Reading)); err != nil {
			return err
		}
	}
	if before := f.Plan.Fingerprint; before != nil {
		if err := before.Check(run.FingerprintOf(f.Graph), f.Graph.Dir, f.Dir); err != nil {
			return err
		}
	}
	if f.Rungs, err = rungsOf(f.Space.fixed, f.Plan.Rungs); err != nil {
		return err
	}
	f.Space.triples = len(f.Graph.Splits[kg.Train])
	f.scheduler = newScheduler(f.Space, &f.Plan, f.Rungs)
	atomicfile.Sweep(f.Dir)
	return f.replay(ctx)
}

// replay reports the results in trials.jsonl to the search again.
func (f *Folder) replay(ctx context.Context) error {
	path := f.path(trialsName)
	trials, err := readTrials(ctx, path)
	if err != nil {
		return err
	}
	for i, trial := range trials {
		line := i + 1
		job, ok, err := f.scheduler.next()
		if err != nil {
			return err
		}
		is := func() bool { return ok && job.Trial == trial.Trial && job.Epochs == trial.Epochs }
		if !is() { // before Extend, this job may have been a promotion of the complete search
			job, ok = f.scheduler.promotion(true)
		}
		if !is() {
			return fmt.Errorf("%s:%d: trial %d with %d epochs is not the next job of this search: "+
				"restore the file, %s and %s", path, line, trial.Trial, trial.Epochs, run.SearchFile, spaceName)
		}
		drawn := f.options(job.Recipe)
		for _, key := range f.Space.Open() {
			if is, want := trial.Options[key], drawn[key]; !bytes.Equal(is, want) {
				return fmt.Errorf("%s:%d: trial %d has %s %s, but the search gives it %s: restore the file, %s and %s",
					path, line, trial.Trial, key, is, want, run.SearchFile, spaceName)
			}
		}
		if err := f.checkFixed(ctx, job); err != nil {
			return err
		}
		f.scheduler.report(job, trial.Value, trial.Failed != "")
		f.trials = append(f.trials, trial)
	}
	return nil
}

// readTrials reads the lines of trials.jsonl, or none if the file does not exist.
func readTrials(ctx context.Context, path string) ([]Trial, error) {
	data, err := input.ReadFile(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var trials []Trial
	for line := range bytes.Lines(data) {
		var trial Trial
		if err := json.Unmarshal(line, &trial); err != nil {
			return nil, fmt.Errorf("%s:%d: this line does not describe a trial: restore the file", path, len(trials)+1)
		}
		trial.renameOptions()
		trials = append(trials, trial)
	}
	return trials, nil
}

// renameOptions replaces keys and words from earlier versions with the current ones.
func (t *Trial) renameOptions() {
	for _, o := range new(recipe.Recipe).Options() {
		if value, ok := t.Options[o.FormerKey]; ok && o.FormerKey != "" {
			delete(t.Options, o.FormerKey)
			t.Options[o.Key] = value
		}
		for former, current := range o.FormerWords {
			if string(t.Options[o.Key]) == strconv.Quote(former) {
				t.Options[o.Key] = jsonOf(current)
			}
		}
	}
}

// checkFixed compares all options of a trial with the recipe in its folder, unless the folder was
// removed. This check is necessary because trials.jsonl contains only the open options.
func (f *Folder) checkFixed(ctx context.Context, job Job) error {
	dir := f.RunDir(job.Trial)
	if _, err := os.Stat(filepath.Join(dir, run.ConfigFile)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	there, _, err := run.ReadRecipe(ctx, dir)
	if err != nil {
		return err
	}
	there.Epochs = job.Recipe.Epochs // checked when the trial resumes
	return f.checkRecipe(there, job)
}

// checkRecipe returns an error if the recipe in a trial's folder differs from the recipe of its
// job.
func (f *Folder) checkRecipe(there recipe.Recipe, job Job) error {
	d := there.Differences(job.Recipe)
	if d == "" {
		return nil
	}
	return fmt.Errorf("%s does not match trial %d of this search (%s): restore it, %s and %s, or move the folder "+
		"elsewhere and let the search repeat the trial",
		filepath.Join(f.RunDir(job.Trial), run.ConfigFile), job.Trial, d, run.SearchFile, spaceName)
}

// options returns the open options of a trial in the form of trials.jsonl.
func (f *Folder) options(c recipe.Recipe) map[string]json.RawMessage {
	options := map[string]json.RawMessage{}
	for i, value := range f.Space.Values(c) {
		options[f.Space.open[i].key] = jsonOf(value)
	}
	return options
}

// jsonOf returns the text of a value as JSON: a number, a boolean or a quoted string.
func jsonOf(value string) json.RawMessage {
	if raw := json.RawMessage(value); json.Valid(raw) {
		return raw
	}
	return strconv.AppendQuote(nil, value)
}

// Run runs jobs until the search is complete or ctx is cancelled. A cancelled search loses only the
// current epoch, and its error wraps ctx.Err() unless something else failed.
func (f *Folder) Run(ctx context.Context) error {
	for {
		job, ok, err := f.scheduler.next()
		if err != nil || !ok {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		trial, err := f.train(ctx, job)
		if err != nil {
			return err
		}
		f.scheduler.report(job, trial.Value, trial.Failed != "")
		f.trials = append(f.trials, trial)
		if err := f.write(); err != nil {
			return err
		}
		if f.End != nil {
			f.End(trial)
		}
	}
}

// train trains a trial up to the rung of its job.
func (f *Folder) train(ctx context.Context, job Job) (trial Trial, err error) {
	if err := f.lock.Check(); err != nil {
		return trial, err
	}
	dir := f.RunDir(job.Trial)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := run.Create(dir, f.Plan.Data, f.Graph, job.Recipe); err != nil {
			return trial, err
		}
	}
	r, err := run.Open(ctx, dir, run.Options{Machine: f.machine, Graph: f.Graph})
	if err != nil {
		return trial, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := f.checkRecipe(r.Recipe, job); err != nil {
		return trial, err
	}
	if f.Begin != nil {
		f.Begin(job, r)
	}
	trial = Trial{
		Trial: job.Trial, Epochs: job.Epochs, Options: f.options(job.Recipe), Metric: job.Recipe.ValidMetric.String(),
	}
	var diverged train.DivergedError
	if err := r.TrainTo(ctx, job.Epochs, nil); errors.As(err, &diverged) {
		trial.Failed = diverged.Error()
	} else if err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			if failure := f.plotInterrupted(trial, r); failure != nil {
				return trial, failure
			}
		}
		return trial, err
	}
	if trial.BestEpoch, trial.Value, err = r.BestUpTo(job.Epochs); err != nil {
		return trial, err
	}
	if trial.Failed == "" && r.Epoch() < job.Epochs {
		trial.StoppedAfter = r.Epoch()
	}
	for _, e := range r.Log() {
		if e.Epoch <= job.Epochs {
			trial.ProcessorMinutes += e.ProcessorSeconds / 60
		}
	}
	return trial, nil
}

// Exhausted reports whether the search is complete because its draws give no new valid recipe, and
// not because it has its largest number of trials. Run must have returned nil.
func (f *Folder) Exhausted() bool {
	return f.Plan.Trials == 0 || len(f.scheduler.recipes) < f.Plan.Trials
}

// LostRungs returns the number of rungs that the search lacks only because a rung must be at a validated
// epoch.
func (f *Folder) LostRungs() int {
	c := f.Space.fixed
	c.ValidEvery = 1
	rungs, err := rungsOf(c, f.Plan.Rungs)
	if err != nil {
		panic(err) // c validates
	}
	return len(rungs) - len(f.Rungs)
}

// ValidEvery returns the number of epochs from one validation of a trial to the next.
func (f *Folder) ValidEvery() int { return f.Space.fixed.ValidEvery }

// Recipe returns the recipe of a trial. Trials are numbered from 1.
func (f *Folder) Recipe(trial int) recipe.Recipe { return f.scheduler.recipes[trial-1] }

// RunDir returns the folder of a trial. Trials are numbered from 1.
func (f *Folder) RunDir(trial int) string { return run.TrialDir(f.Dir, trial) }

// write writes the plot, the best recipe and the trials, in this order. A search that is killed
// before it has written the trials repeats its last job when it resumes, and writes the other files
// again.
func (f *Folder) write() error {
	if err := f.plot(nil); err != nil {
		return err
	}
	if err := f.writeBest(); err != nil {
		return err
	}
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	encoder.SetEscapeHTML(false)
	for _, trial := range f.trials {
		if err := encoder.Encode(trial); err != nil {
			return err
		}
	}
	return atomicfile.WriteBytes(f.path(trialsName), lines.Bytes())
}

// writeBest writes the recipe of the best trial, unless all trials have failed before the first rung.
func (f *Folder) writeBest() error {
	best := f.Ranked()[0]
	if best.Failed != "" {
		return nil
	}
	c, later := f.Recipe(best.Trial), ""
	if f.Failure(best.Trial) != "" {
		later = ", before it diverged"
	}
	file := fmt.Appendf(nil, "# trial %d of a search on %s: %s %.4f on the validation split, with %d of %d epochs%s\n",
		best.Trial, text.Escape(f.Graph.Name), best.Metric, best.Value, best.Trained(), c.Epochs, later)
	return atomicfile.WriteBytes(f.path(bestConfigName), append(file, c.YAML()...))
}

// Ranked returns the result of each trial at the last rung that it reached without failing, best first.
// Trials that failed before the first rung follow.
func (f *Folder) Ranked() []Trial {
	return ranked(f.trials)
}

// Failure returns why a trial failed before or after its result in Ranked, or "" if it did not fail.
func (f *Folder) Failure(trial int) string {
	for _, t := range f.trials {
		if t.Trial == trial && t.Failed != "" {
			return t.Failed
		}
	}
	return ""
}

// BestRun returns the folder of the best trial, given the folder of a search. It neither locks nor
// checks the folder.
func BestRun(ctx context.Context, dir string) (string, error) {
	trials, err := readTrials(ctx, filepath.Join(dir, trialsName))
	if err != nil {
		return "", err
	}
	if trials = ranked(trials); len(trials) == 0 {
		return "", fmt.Errorf("no trial of the search in %s has reached the first rung: "+
			"continue it with mquine tune --resume %[1]s", dir)
	}
	if trials[0].Failed != "" {
		return "", failedError(dir, trials, "")
	}
	return run.TrialDir(dir, trials[0].Trial), nil
}

// failedError returns the error for a search in the folder dir whose trials so far have all failed before
// the first rung. advice is appended to the advice to search a different space.
func failedError(dir string, trials []Trial, advice string) error {
	first := trials[0]
	return fmt.Errorf("the search in %s has no result, because no trial so far succeeded: search a different space in "+
		"a new folder%s (trial %d failed: %s)", dir, advice, first.Trial, first.Failed)
}

// Err returns an error if all trials so far have failed before the first rung.
func (f *Folder) Err() error {
	if trials := f.Ranked(); len(trials) > 0 && trials[0].Failed != "" {
		if f.Exhausted() {
			return failedError(f.Dir, trials, "")
		}
		return failedError(f.Dir, trials, ", or continue it with a larger --trials")
	}
	return nil
}

func ranked(trials []Trial) []Trial {
	var ranked []Trial
	for _, trial := range trials {
		switch i := slices.IndexFunc(ranked, func(x Trial) bool { return x.Trial == trial.Trial }); {
		case i < 0:
			ranked = append(ranked, trial)
		case trial.Failed == "":
			ranked[i] = trial
		}
	}
	slices.SortFunc(ranked, func(a, b Trial) int {
		if (a.Failed == "") != (b.Failed == "") {
			return cmp.Compare(len(a.Failed), len(b.Failed))
		}
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(b.Epochs, a.Epochs), cmp.Compare(a.Trial, b.Trial))
	})
	return ranked
}
