package train

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
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/kg"
)

// The files of a tuning.
const (
	searchName     = "search.yaml"
	spaceName      = "space.yaml"
	trialsName     = "trials.jsonl"
	bestConfigName = "best.yaml"
	trialsPlotName = "trials.svg"
)

// Tuning is a Search in a folder, where it can be taken up again after any interruption:
//
//	search.yaml    the data set and the Plan
//	space.yaml     the space, with all options
//	trials.jsonl   a Trial a line, for each rung that a trial has come to
//	trials.svg     a plot of them
//	best.yaml      the configuration of the best trial
//	trial-001, …   the folder of each trial's Run
//
// All trials train for the epochs of the space: a rung is a place to stop and to compare. So a trial
// that goes on is resumed, and one that comes to the last rung is what a training with its configuration is.
type Tuning struct {
	Dir   string
	Plan  Plan
	Space *Space
	Graph *kg.Graph
	Rungs []int
	// Begin and End, if not nil, are called before and after a job; the run shows what is done already.
	Begin func(Job, *Run)
	End   func(Trial)

	machine Machine
	lock    *os.File
	search  *Search
	trials  []Trial
}

// Plan is how a space is searched.
type Plan struct {
	Data   string        `yaml:"data"`
	Seed   uint64        `yaml:"seed"`
	Rungs  int           `yaml:"rungs"`
	Trials int           `yaml:"trials"` // at most; 0 for no limit
	Budget time.Duration `yaml:"budget"` // 0 for no limit; kept for the reader, who counts it
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

// CreateTuning makes the folder of a new tuning, which must not exist.
func CreateTuning(dir string, g *kg.Graph, s *Space, p Plan) error {
	rungs, err := Rungs(s.fixed, p.Rungs)
	if err != nil {
		return err
	}
	job, _, err := NewSearch(s, p.Seed, rungs, p.Trials).Next()
	if err != nil {
		return err
	}
	if err := job.Config.checkOn(g); err != nil {
		return err
	}
	text, err := dataLine(p.Data)
	if err != nil {
		return err
	}
	text = fmt.Appendf(text, "# seed of the search\nseed: %d\n# number of rungs\nrungs: %d\n# most trials; 0 for no limit\ntrials: %d\n# time that a run of the search takes; 0s for no limit\nbudget: %v\n",
		p.Seed, p.Rungs, p.Trials, p.Budget)
	return createFolder(dir, map[string][]byte{searchName: text, spaceName: s.YAML()})
}

// OpenTuning opens the tuning in a folder, and keeps other processes from it until it is closed.
func OpenTuning(ctx context.Context, dir string, m Machine) (*Tuning, error) {
	t := &Tuning{Dir: filepath.Clean(dir), machine: m}
	if err := t.open(ctx); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Close lets other processes work in the folder.
func (t *Tuning) Close() error {
	if t.lock == nil {
		return nil
	}
	err := t.lock.Close()
	t.lock = nil
	return err
}

func (t *Tuning) path(name string) string { return filepath.Join(t.Dir, name) }

func (t *Tuning) open(ctx context.Context) error {
	text, err := input.ReadFile(ctx, t.path(searchName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is not the folder of a search: it has no %s", t.Dir, searchName)
	case err != nil:
		return err
	}
	if t.lock, err = lock(t.path(searchName)); err != nil {
		return err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&t.Plan); err != nil {
		return fmt.Errorf("%s: %s", t.path(searchName), strings.TrimPrefix(err.Error(), "yaml: "))
	}
	file, err := input.Open(ctx, t.path(spaceName))
	if err != nil {
		return err
	}
	defer file.Close()
	if t.Space, err = ReadSpace(file, t.path(spaceName), Default()); err != nil {
		return err
	}
	if t.Graph, err = kg.Open(ctx, t.Plan.Data, kg.ReportProgress(t.machine.Reading)); err != nil {
		return err
	}
	if t.Rungs, err = Rungs(t.Space.fixed, t.Plan.Rungs); err != nil {
		return err
	}
	t.search = NewSearch(t.Space, t.Plan.Seed, t.Rungs, t.Plan.Trials)
	if err := sweep(t.Dir); err != nil {
		return err
	}
	return t.readTrials(ctx)
}

// readTrials makes the search again from its results.
func (t *Tuning) readTrials(ctx context.Context) error {
	path := t.path(trialsName)
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
		job, ok, err := t.search.Next()
		if err != nil {
			return err
		}
		if !ok || job.Trial != trial.Trial || job.Epochs != trial.Epochs {
			return fmt.Errorf("%s:%d: trial %d with %d epochs is not what this search does next: restore the file, %s and %s",
				path, line, trial.Trial, trial.Epochs, searchName, spaceName)
		}
		t.search.Report(job, trial.Value, trial.Failed != "")
		t.trials = append(t.trials, trial)
	}
	return nil
}

// Run makes the jobs of the search until there is none, or until ctx is cancelled, when the current
// epoch is lost and nothing else.
func (t *Tuning) Run(ctx context.Context) error {
	for {
		job, ok, err := t.search.Next()
		if err != nil || !ok {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		trial, err := t.train(ctx, job)
		if err != nil {
			return err
		}
		t.search.Report(job, trial.Value, trial.Failed != "")
		t.trials = append(t.trials, trial)
		if err := t.write(); err != nil {
			return err
		}
		if t.End != nil {
			t.End(trial)
		}
	}
}

// train trains a trial up to the rung of the job.
func (t *Tuning) train(ctx context.Context, job Job) (trial Trial, err error) {
	dir := t.RunDir(job.Trial)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := Create(dir, t.Plan.Data, t.Graph, job.Config); err != nil {
			return trial, err
		}
	}
	run, err := OpenRun(ctx, dir, t.machine)
	if err != nil {
		return trial, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if run.Config != job.Config {
		return trial, fmt.Errorf("%s is not what this search makes of trial %d: restore it, %s and %s", run.path(configName), job.Trial, searchName, spaceName)
	}
	if t.Begin != nil {
		t.Begin(job, run)
	}
	trial = Trial{Trial: job.Trial, Epochs: job.Epochs, Options: map[string]json.RawMessage{}, Metric: job.Config.StopMetric}
	for i, text := range t.Space.Values(job.Config) {
		value := json.RawMessage(text)
		if !json.Valid(value) { // a word
			value = strconv.AppendQuote(nil, text)
		}
		trial.Options[t.Space.open[i].key] = value
	}
	var blown blownUp
	if err := run.trainTo(ctx, job.Epochs, func(Epoch) {}); errors.As(err, &blown) {
		trial.Failed = blown.Error()
	} else if err != nil {
		return trial, err
	}
	trial.BestEpoch, trial.Value = run.Best()
	for _, e := range run.log {
		trial.ProcessorMinutes += e.ProcessorSeconds / 60
	}
	return trial, nil
}

// Config returns the configuration of a trial, and RunDir its folder.
func (t *Tuning) Config(trial int) Config { return t.search.configs[trial-1] }

func (t *Tuning) RunDir(trial int) string { return t.path(fmt.Sprintf("trial-%03d", trial)) }

// write writes the plot, the best configuration and the trials. The trials come last: a search that is
// killed before it does their last job again, and with it the other files.
func (t *Tuning) write() error {
	if err := t.plot(); err != nil {
		return err
	}
	if best := t.Ranked()[0]; best.Failed == "" {
		c := t.Config(best.Trial)
		head := fmt.Sprintf("# trial %d of a search on %s: %s %.4f on the validation split, with %d of %d epochs\n",
			best.Trial, t.Graph.Name, best.Metric, best.Value, best.Epochs, c.Epochs)
		if err := writeFile(t.path(bestConfigName), append([]byte(head), c.YAML()...)); err != nil {
			return err
		}
	}
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	encoder.SetEscapeHTML(false)
	for _, trial := range t.trials {
		if err := encoder.Encode(trial); err != nil {
			return err
		}
	}
	return writeFile(t.path(trialsName), lines.Bytes())
}

// Ranked returns the trials, each as it is at the last rung that it came to, the best first and
// those that failed last.
func (t *Tuning) Ranked() []Trial {
	var ranked []Trial
	for _, trial := range t.trials {
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
