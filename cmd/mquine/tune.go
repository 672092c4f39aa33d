package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"
	trainrun "github.com/mquine/mquine/train/run"
	"github.com/mquine/mquine/train/search"
)

func newTuneCommand() *cobra.Command {
	t := &tuning{plan: search.Plan{Seed: 1, Rungs: 3}}
	cmd := &cobra.Command{
		Use:   "tune --data NAME --space FILE --budget TIME",
		Short: "Search for the best options of a training",
		Long: `Search for the best options of a training, by the validation split alone: random search with
successive halving (ASHA). Every trial draws its options from the space and trains for a few
epochs, to the first rung. The best third of the trials at a rung go on to the next, which has
three times as many epochs; the last has all epochs of the space. One trial trains after another.

The space is a YAML file of the options that mquine train --print-config prints. An option has a
value, or is left open; one that is not there has the default of the model, or the preset's:

  epochs: 30
  batch: {choice: [256, 512, 1024]}
  learning_rate: {min: 1e-4, max: 1e-2, scale: log}
  dropout: {min: 0, max: 0.5}

Trials are compared by the option valid_metric. The folder of the search has:

  search.yaml, space.yaml   what is searched
  trials.jsonl, trials.svg  the trials: a line for each rung that one has come to; a plot
  best.yaml                 the options of the best trial, for mquine train --config
  trial-001, …              a training each, which mquine train --resume can take to its end

When the budget is spent, or after Ctrl-C, the epoch that is under way is lost and no other;
--resume DIR goes on as if nothing had happened, for another such budget; with another data set
or another space it is an error. The seed decides which trials there are and what they do, and
the budget only how many. To give a trial more epochs, copy its folder and extend the copy.`,
		Example: `  mquine tune --data codex-s --space space.yaml --budget 2h --out ./search
  mquine tune --resume ./search --budget 30m
  mquine tune --data codex-s --space space.yaml --trials 20
  mquine train --data codex-s --config ./search/best.yaml`,
		Args:    noArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return t.check(cmd) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.run(cmd.Context(), cmd, cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	addData(cmd, &t.plan.Data)
	delete(flags.Lookup("data").Annotations, cobra.BashCompOneRequiredFlag)
	flags.StringVar(&t.space, "space", "", "YAML `file` of options, some left open")
	flags.Var((*timeSpan)(&t.plan.Budget), "budget", "`time` after which the search stops, such as 90m or 2h")
	flags.Var(positive{&t.plan.Trials, 0}, "trials", "largest `number` of trials (default: no limit)")
	flags.Lookup("trials").DefValue = ""
	flags.Var(positive{&t.plan.Rungs, 20}, "rungs", "`number` of rungs; 1 for random search alone")
	flags.Uint64Var(&t.plan.Seed, "seed", t.plan.Seed, "`seed` of the search; that of the trainings is an option of the space")
	addPreset(cmd, &t.preset, "preset that the space changes: ")
	flags.StringVar(&t.out, "out", "", "`folder` of the search, which must not exist (default: named after the data set)")
	must(cmd.MarkFlagDirname("out"))
	flags.StringVar(&t.resume, "resume", "", "`folder` of a search to go on with")
	must(cmd.MarkFlagDirname("resume"))
	t.compute.add(cmd)
	return cmd
}

// timeSpan is a flag that takes a time above 0.
type timeSpan time.Duration

func (s *timeSpan) Type() string { return "time" }

func (s *timeSpan) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

func (s *timeSpan) Set(text string) error {
	v, err := parseTime(text, "must be a time above 0, such as 90m, 2h or 1h30m")
	if err == nil {
		*s = timeSpan(v)
	}
	return err
}

// tuning is a search as the user asks for it.
type tuning struct {
	compute
	plan                       search.Plan
	space, preset, out, resume string
}

// check refuses flags that do not go together, and says what is missing.
func (t *tuning) check(cmd *cobra.Command) error {
	if t.resume != "" {
		for _, name := range []string{"data", "space", "trials", "rungs", "seed", "preset", "out"} {
			if cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s cannot be given with --resume: a search goes on with what is in its folder", name)
			}
		}
		return nil
	}
	switch {
	case t.plan.Data == "":
		return errors.New("--data is missing, or --resume")
	case t.space == "":
		return errors.New("--space is missing")
	case t.plan.Budget == 0 && t.plan.Trials == 0:
		return errors.New("when does the search end? give --budget, such as 2h, or --trials")
	}
	return nil
}

// create makes the folder of the search and returns it.
func (t *tuning) create(ctx context.Context, log io.Writer, backend *kernel.Backend) (dir string, err error) {
	base := recipe.Default()
	if t.preset != "" {
		if base, err = recipe.Preset(t.preset, t.plan.Data); err != nil {
			return "", err
		}
	}
	file, err := input.ReadFile(ctx, t.space)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", t.space, text.Cause(err))
	}
	space, err := search.ReadSpace(bytes.NewReader(file), t.space, base)
	if err != nil {
		return "", err
	}
	if t.preset == "" {
		if base, err = recipe.DefaultFor(space.Model()); err != nil {
			return "", err
		}
		if space, err = search.ReadSpace(bytes.NewReader(file), t.space, base); err != nil {
			return "", err
		}
	}
	if err := space.CheckBackend(backend); err != nil {
		return "", err
	}
	g, err := openData(ctx, t.plan.Data, log)
	if err != nil {
		return "", err
	}
	if err := space.CheckMemory(g, train.Machine{Backend: backend, Threads: t.threads}); err != nil {
		return "", err
	}
	if dir = t.out; dir == "" {
		dir = g.Name + "-tune"
	}
	return dir, search.Create(dir, g, space, t.plan)
}

func (t *tuning) run(ctx context.Context, cmd *cobra.Command, log io.Writer) (err error) {
	backend, err := t.compute.resolve()
	if err != nil {
		return err
	}
	dir := t.resume
	if dir == "" {
		if dir, err = t.create(ctx, log, backend); err != nil {
			return err
		}
	}
	show, reading := &tuningLog{meter: newMeter(log), log: log}, newMeter(log)
	folder, err := search.Open(ctx, dir, train.Machine{
		Backend: backend, Threads: t.threads, Progress: show.step, Reading: reading.reading("the data set"),
	})
	reading.clear()
	if err != nil {
		return err
	}
	defer folder.Close() // of no consequence: the process ends
	folder.Begin, folder.End = show.begin, show.end
	budget := t.plan.Budget
	if budget == 0 {
		budget = folder.Plan.Budget
	}
	limited := ctx
	if budget > 0 {
		show.deadline = time.Now().Add(budget)
		var cancel context.CancelFunc
		limited, cancel = context.WithDeadline(ctx, show.deadline)
		defer cancel()
	}
	show.folder = folder
	printLine(log, "searching %s on %s in %s", strings.Join(folder.Space.Open(), ", "), folder.Graph.Name, dir)
	err = folder.Run(limited)
	show.meter.clear()
	stopped := limited.Err() != nil && err != nil
	if err != nil && !stopped {
		return err
	}
	if err := writeOutput(cmd, t.result(folder, stopped)); err != nil {
		return err
	}
	return ctx.Err()
}

// shown is the number of trials in the table.
const shown = 10

// result writes the best trials, and what to do with them.
func (t *tuning) result(s *search.Folder, stopped bool) []byte {
	var out bytes.Buffer
	trials := s.Ranked()
	if len(trials) == 0 || trials[0].Failed != "" {
		fmt.Fprintf(&out, "no trial has come to the first rung of %s\n", text.Plural(s.Rungs[0], "epoch"))
	} else {
		best := trials[0]
		head := []any{"trial", "epochs", best.Metric, "processor minutes"}
		for _, key := range s.Space.Open() {
			head = append(head, key)
		}
		numbers := make([]int, len(head))
		for i := range numbers {
			numbers[i] = i + 1
		}
		table := text.NewTable(numbers...)
		table.AppendHeader(head)
		for _, trial := range trials[:min(shown, len(trials))] {
			value := fmt.Sprintf("%.4f", trial.Value)
			if trial.Failed != "" {
				value = "failed"
			}
			row := []any{trial.Trial, trial.Epochs, value, fmt.Sprintf("%.3g", trial.ProcessorMinutes)}
			for _, text := range s.Space.Values(s.Recipe(trial.Trial)) {
				row = append(row, text)
			}
			table.AppendRow(row)
		}
		fmt.Fprintf(&out, "%s\n", table.Render())
		if len(trials) > shown {
			printLine(&out, "and %d more in %s", len(trials)-shown, filepath.Join(s.Dir, "trials.jsonl"))
		}
		dir := s.RunDir(best.Trial)
		checkpoint := filepath.Join(dir, "best")
		fmt.Fprintln(&out)
		if _, err := os.Stat(checkpoint); err != nil {
			printLine(&out, "The best is trial %d, whose checkpoint %s was removed.", best.Trial, checkpoint)
		} else {
			printLine(&out, "The best is trial %d: %s is its checkpoint.", best.Trial, checkpoint)
			if best.Epochs < s.Rungs[len(s.Rungs)-1] {
				printLine(&out, "  mquine train --resume %s   trains it to the end", dir)
			}
		}
		printLine(&out, "  mquine train --data %s --config %s   trains it anew", s.Plan.Data, filepath.Join(s.Dir, "best.yaml"))
	}
	if stopped {
		printLine(&out, "  mquine tune --resume %s   goes on with the search", s.Dir)
	}
	return out.Bytes()
}

// tuningLog shows how a search goes.
type tuningLog struct {
	meter    *meter
	log      io.Writer
	folder   *search.Folder
	deadline time.Time // zero without a budget
	job      search.Job
	training trainingLog // for the parts of a loss
}

// begin prints what a trial is.
func (l *tuningLog) begin(job search.Job, r *trainrun.Run) {
	l.job, l.training.run = job, r
	l.meter.nextLine = lineEvery
	var options []string
	for i, value := range l.folder.Space.Values(job.Recipe) {
		options = append(options, l.folder.Space.Open()[i]+" "+value)
	}
	from := ""
	if r.Epoch() > 0 {
		from = fmt.Sprintf(" after epoch %d", r.Epoch())
	}
	writeNotes(l.log, r.Notes)
	printLine(l.log, "trial %d%s to epoch %d: %s", job.Trial, from, job.Epochs, strings.Join(options, ", "))
}

// step is a train.Machine.Progress.
func (l *tuningLog) step(p train.Progress) {
	left := ""
	if !l.deadline.IsZero() {
		left = fmt.Sprintf(", %s left of the budget", max(0, time.Until(l.deadline)).Round(time.Second))
	}
	l.meter.show(int64(p.Done), int64(p.Total), p.Elapsed, fmt.Sprintf("trial %d, epoch %d to %d, loss %s, %s triples/s%s",
		l.job.Trial, p.Epoch, l.job.Epochs, l.training.parts(p.Loss), quantity(float64(p.Done)/p.Elapsed.Seconds()), left))
}

// end prints how a trial did.
func (l *tuningLog) end(trial search.Trial) {
	l.meter.clear()
	if trial.Failed != "" {
		printLine(l.log, "trial %d failed: %s", trial.Trial, trial.Failed)
		return
	}
	text := ""
	if best := l.folder.Ranked()[0]; best.Trial == trial.Trial {
		text = ", the best so far"
	} else {
		text = fmt.Sprintf(", the best is %.4f of trial %d", best.Value, best.Trial)
	}
	printLine(l.log, "trial %d at epoch %d: %s %.4f%s", trial.Trial, trial.Epochs, trial.Metric, trial.Value, text)
}
