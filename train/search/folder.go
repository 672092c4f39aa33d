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

// The files of a search, beside run.SearchFile.
const (
	spaceName      = "space.yaml"
	trialsName     = "trials.jsonl"
	bestConfigName = "best.yaml"
	trialsPlotName = "trials.svg"
)

// Folder is a Search in a folder, where it can be taken up again after any interruption:
//
//	search.yaml    the data set and the Plan
//	space.yaml     the space, with all options
//	trials.jsonl   a Trial a line, for each rung that a trial has come to
//	trials.svg     a plot of them
//	best.yaml      the configuration of the best trial
//	trial-001, …   the folder of each trial's run.Run
//
// All trials train for the epochs of the space: a rung is a place to stop and to compare. So a trial
// that goes on is resumed, and one that comes to the last rung is what a training with its configuration is.
type Folder struct {
	Dir   string
	Plan  Plan
	Space *Space
	Graph *kg.Graph
	Rungs []int
	// Begin and End, if not nil, are called before and after a job; the run shows what is done already.
	Begin func(Job, *run.Run)
	End   func(Trial)

	machine train.Machine
	lock    *workdir.Lock
	search  *Search
	trials  []Trial
}

// Trial is what is known of a trial at a rung: a line of trials.jsonl.
type Trial struct {
	Trial   int                        `json:"trial"`
	Epochs  int                        `json:"epochs"`
	Options map[string]json.RawMessage `json:"options"` // those that the space leaves open
	// Value is the best metric of the validation split up to that epoch.
	Metric           string  `json:"metric"`
	Value            float64 `json:"value"`
	BestEpoch        int     `json:"best_epoch"`
	ProcessorMinutes float64 `json:"processor_minutes"` // in all its epochs
	Failed           string  `json:"failed,omitempty"`  // why it goes no further
}

// Create makes the folder of a new search, which must not exist.
func Create(dir string, g *kg.Graph, s *Space, p Plan) error {
	rungs, err := Rungs(s.fixed, p.Rungs)
	if err != nil {
		return err
	}
	job, _, err := NewSearch(s, p.Seed, rungs, p.Trials).Next()
	if err != nil {
		return err
	}
	if err := job.Recipe.CheckData(g); err != nil {
		return err
	}
	p.Fingerprint = run.FingerprintOf(g)
	plan, err := p.yaml()
	if err != nil {
		return err
	}
	return workdir.Create(dir, map[string][]byte{run.SearchFile: plan, spaceName: s.YAML()})
}

// Open opens the search in a folder, and keeps other processes from it until it is closed.
func Open(ctx context.Context, dir string, m train.Machine) (*Folder, error) {
	f := &Folder{Dir: filepath.Clean(dir), machine: m}
	if err := f.open(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Close lets other processes work in the folder.
func (f *Folder) Close() error {
	l := f.lock
	f.lock = nil
	return l.Close()
}

func (f *Folder) path(name string) string { return filepath.Join(f.Dir, name) }

func (f *Folder) open(ctx context.Context) error {
	plan, err := input.ReadFile(ctx, f.path(run.SearchFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is not the folder of a search: it has no %s", f.Dir, run.SearchFile)
	case err != nil:
		return err
	}
	if f.lock, err = workdir.Acquire(f.path(run.SearchFile)); err != nil {
		return err
	}
	if err := f.Plan.read(bytes.NewReader(plan), f.path(run.SearchFile)); err != nil {
		return err
	}
	file, err := input.Open(ctx, f.path(spaceName))
	if err != nil {
		return err
	}
	defer file.Close()
	if f.Space, err = ReadSpace(file, f.path(spaceName), recipe.Default()); err != nil {
		return err
	}
	if f.Graph, err = kg.Open(ctx, f.Plan.Data, kg.ReportProgress(f.machine.Reading)); err != nil {
		return err
	}
	if before := f.Plan.Fingerprint; before != nil {
		if err := before.Check(run.FingerprintOf(f.Graph), f.Graph.Dir, f.Dir); err != nil {
			return err
		}
	}
	if f.Rungs, err = Rungs(f.Space.fixed, f.Plan.Rungs); err != nil {
		return err
	}
	f.search = NewSearch(f.Space, f.Plan.Seed, f.Rungs, f.Plan.Trials)
	atomicfile.Sweep(f.Dir)
	return f.readTrials(ctx)
}

// readTrials makes the search again from its results.
func (f *Folder) readTrials(ctx context.Context) error {
	path := f.path(trialsName)
	data, err := input.ReadFile(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	line := 0
	for text := range bytes.Lines(data) {
		line++
		var trial Trial
		if err := json.Unmarshal(text, &trial); err != nil {
			return fmt.Errorf("%s:%d: this is not the line of a trial: restore the file", path, line)
		}
		job, ok, err := f.search.Next()
		if err != nil {
			return err
		}
		if !ok || job.Trial != trial.Trial || job.Epochs != trial.Epochs {
			return fmt.Errorf("%s:%d: trial %d with %d epochs is not what this search does next: "+
				"restore the file, %s and %s", path, line, trial.Trial, trial.Epochs, run.SearchFile, spaceName)
		}
		drawn := f.options(job.Recipe)
		for _, key := range f.Space.Open() {
			if is, want := trial.Options[key], drawn[key]; !bytes.Equal(is, want) {
				return fmt.Errorf("%s:%d: trial %d has %s %s, and this search gives it %s: restore the file, %s and %s",
					path, line, trial.Trial, key, is, want, run.SearchFile, spaceName)
			}
		}
		if err := f.checkFixed(ctx, job); err != nil {
			return err
		}
		f.search.Report(job, trial.Value, trial.Failed != "")
		f.trials = append(f.trials, trial)
	}
	return nil
}

// checkFixed compares the options of a trial that the space fixes, which trials.jsonl does not have, with those in
// the trial's folder, unless that was removed.
func (f *Folder) checkFixed(ctx context.Context, job Job) error {
	dir := f.RunDir(job.Trial)
	if _, err := os.Stat(filepath.Join(dir, run.ConfigFile)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	there, _, err := run.ReadRecipe(ctx, dir)
	if err != nil {
		return err
	}
	there.Epochs = job.Recipe.Epochs // where they differ, it matters when the trial goes on
	return f.checkRecipe(there, job)
}

// checkRecipe says how the recipe in a trial's folder differs from the one that the search gives it.
func (f *Folder) checkRecipe(there recipe.Recipe, job Job) error {
	d := there.Differences(job.Recipe)
	if d == "" {
		return nil
	}
	return fmt.Errorf("%s is not what this search makes of trial %d (%s): restore it, %s and %s; or move the folder "+
		"elsewhere, and the search trains the trial again",
		filepath.Join(f.RunDir(job.Trial), run.ConfigFile), job.Trial, d, run.SearchFile, spaceName)
}

// options returns the options of a trial that the space leaves open, as in trials.jsonl.
func (f *Folder) options(c recipe.Recipe) map[string]json.RawMessage {
	options := map[string]json.RawMessage{}
	for i, text := range f.Space.Values(c) {
		value := json.RawMessage(text)
		if !json.Valid(value) { // a word
			value = strconv.AppendQuote(nil, text)
		}
		options[f.Space.open[i].key] = value
	}
	return options
}

// Run makes the jobs of the search until there is none, or until ctx is cancelled, when the current
// epoch is lost and nothing else.
func (f *Folder) Run(ctx context.Context) error {
	for {
		job, ok, err := f.search.Next()
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
		f.search.Report(job, trial.Value, trial.Failed != "")
		f.trials = append(f.trials, trial)
		if err := f.write(); err != nil {
			return err
		}
		if f.End != nil {
			f.End(trial)
		}
	}
}

// train trains a trial up to the rung of the job.
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
	r, err := run.Open(ctx, dir, f.machine)
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
		Trial: job.Trial, Epochs: job.Epochs, Options: f.options(job.Recipe), Metric: job.Recipe.StopMetric.String(),
	}
	var diverged train.DivergedError
	if err := r.TrainTo(ctx, job.Epochs, func(train.Epoch) {}); errors.As(err, &diverged) {
		trial.Failed = diverged.Error()
	} else if err != nil {
		return trial, err
	}
	if trial.BestEpoch, trial.Value, err = r.BestUpTo(job.Epochs); err != nil {
		return trial, err
	}
	for _, e := range r.Log() {
		if e.Epoch <= job.Epochs {
			trial.ProcessorMinutes += e.ProcessorSeconds / 60
		}
	}
	return trial, nil
}

// Recipe returns the recipe of a trial, and RunDir its folder.
func (f *Folder) Recipe(trial int) recipe.Recipe { return f.search.recipes[trial-1] }

func (f *Folder) RunDir(trial int) string { return run.TrialDir(f.Dir, trial) }

// write writes the plot, the best configuration and the trials. The trials come last: a search that is
// killed before it does their last job again, and with it the other files.
func (f *Folder) write() error {
	if err := f.plot(); err != nil {
		return err
	}
	if best := f.Ranked()[0]; best.Failed == "" {
		c := f.Recipe(best.Trial)
		head := fmt.Sprintf("# trial %d of a search on %s: %s %.4f on the validation split, with %d of %d epochs\n",
			best.Trial, text.Escape(f.Graph.Name), best.Metric, best.Value, best.Epochs, c.Epochs)
		if err := atomicfile.WriteBytes(f.path(bestConfigName), append([]byte(head), c.YAML()...)); err != nil {
			return err
		}
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

// Ranked returns the trials, each as it is at the last rung that it came to, the best first and
// those that failed last.
func (f *Folder) Ranked() []Trial {
	var ranked []Trial
	for _, trial := range f.trials {
		ranked = slices.DeleteFunc(ranked, func(x Trial) bool { return x.Trial == trial.Trial })
		ranked = append(ranked, trial)
	}
	slices.SortFunc(ranked, func(a, b Trial) int {
		if (a.Failed == "") != (b.Failed == "") {
			return cmp.Compare(len(a.Failed), len(b.Failed))
		}
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(b.Epochs, a.Epochs), cmp.Compare(a.Trial, b.Trial))
	})
	return ranked
}
