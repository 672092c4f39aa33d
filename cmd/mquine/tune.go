package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"
	"github.com/mquine/mquine/train/run"
	"github.com/mquine/mquine/train/search"
)

func newTuneCommand() *cobra.Command {
	t := &tuning{plan: search.Plan{Seed: 1, Rungs: 3}}
	cmd := &cobra.Command{
		Use:   "tune --data NAME --space FILE --budget TIME",
		Short: "Search for the best training options",
		Long: `Search for the best training options, using the valid split alone: random search
with successive halving (ASHA). Every trial draws its options from the space and
trains for a few epochs, up to the first rung. The best third of the trials at a
rung continue to the next rung, which has three times as many epochs. The last
rung has all epochs of the space. Trials train one after another.

The space is a YAML file with options that "mquine train --print-config" prints.
Options that the space leaves out have the default of the model, or of mquine if
the space has several, or the value of the preset. Each option has a value, a
list of choices or a range:

  model: complex
  epochs: 30
  batch: {choice: [256, 512, 1024]}
  learning_rate: {min: 1e-4, max: 1e-2, scale: log}
  dropout: {min: 0, max: 0.5}

The search compares trials by the metric that the option valid_metric names. One
folder holds the search:

  search.yaml, space.yaml   the settings of the search, and the space
  trials.jsonl, trials.svg  one line per trial and rung, and a plot
  best.yaml                 options of the best trial, for mquine train --config
  trial-001, …              the runs, which mquine train --resume can finish

When the budget ends or you press Ctrl-C, only the current epoch is lost.
--resume DIR continues the search with a new budget, which has the same length
unless --budget gives another, and with more trials if --trials gives a larger
number. It refuses to continue if the data set or the space has changed. The
seed fixes the sequence of trials; the budget decides how many of them run. To
give a trial more epochs, copy its folder and extend the copy.`,
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
	cmd.SetFlagErrorFunc(tuneFlagError)
	flags := cmd.Flags()
	addData(cmd, &t.plan.Data)
	delete(flags.Lookup("data").Annotations, cobra.BashCompOneRequiredFlag)
	flags.StringVar(&t.space, "space", "", "YAML `FILE` of the search space")
	markInput(cmd, "space")
	flags.Var(span{&t.plan.Budget, "90m, 2h or 1h30m"}, "budget", "stop the search after this time, such as 90m or 2h")
	flags.Var(positive{&t.plan.Trials, 0}, "trials", "maximum number of trials (default: no limit)")
	flags.Lookup("trials").DefValue = ""
	flags.Var(positive{&t.plan.Rungs, 20}, "rungs", "number of rungs, from 1 (random search alone) to 20")
	flags.Var(seed{&t.plan.Seed}, "seed", "seed of the search (the space sets the seed of the runs)")
	addPreset(cmd, &t.preset, "for options that the space leaves out, use preset")
	flags.StringVar(&t.out, "out", "", "new folder `DIR` for the search (default: named after the data set)")
	must(cmd.MarkFlagDirname("out"))
	flags.StringVar(&t.resume, "resume", "", "continue the search in `DIR`")
	must(cmd.MarkFlagDirname("resume"))
	inGroup(cmd, searchFlags, "space", "budget", "trials", "rungs", "seed", "preset")
	inGroup(cmd, runFlags, "out", "resume")
	t.printed.add(cmd)
	t.compute.add(cmd)
	return cmd
}

// tuneFlagError is flagError for tune, whose space has the options that are flags of train.
func tuneFlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		name := unknown.GetSpecifiedName()
		var r recipe.Recipe
		for _, o := range r.Options() {
			if o.Flag() == name || o.Flag() == namesHere[strings.ReplaceAll(name, "_", "-")] {
				return fmt.Errorf("unknown flag %s; put the option %s into the file of --space", dashed(name), o.Key)
			}
		}
	}
	return flagError(cmd, err)
}

// tuning starts or continues a search. It holds the flags of tune.
type tuning struct {
	compute
	printed
	plan                       search.Plan
	space, preset, out, resume string
}

// check refuses flags that contradict each other, and reports flags that a new search lacks.
func (t *tuning) check(cmd *cobra.Command) error {
	if t.resume != "" {
		for _, name := range []string{"data", "space", "rungs", "seed", "preset", "out"} {
			if cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s cannot be given with --resume: a search continues with its own settings", name)
			}
		}
		return nil
	}
	switch {
	case t.plan.Data == "":
		return errors.New("give --data to start a search, or --resume to continue one")
	case t.space == "":
		return errors.New("--space is missing")
	case t.plan.Budget == 0 && t.plan.Trials == 0:
		return errors.New("give --budget, such as 2h, or --trials, to limit the search")
	}
	return nil
}

// readSpace reads the space. Options that the space leaves out come from the preset or from the
// defaults of the space's model. It reads the space three times: to learn the model; to learn the
// negatives and losses of the trials, for which Fit turns some of these options off; and with the
// options that Fit returns.
func (t *tuning) readSpace(ctx context.Context) (*search.Space, error) {
	file, err := input.ReadFile(ctx, t.space)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", t.space, text.Cause(err))
	}
	read := func(base recipe.Recipe) (*search.Space, error) {
		return search.ReadSpace(bytes.NewReader(file), t.space, base)
	}
	space, err := read(recipe.Default())
	if err != nil {
		return nil, err
	}
	base, err := recipe.Base(t.preset, t.plan.Data, space.Model())
	if err != nil {
		return nil, err
	}
	if space, err = read(base); err != nil {
		return nil, err
	}
	return read(space.Fit(base))
}

// create creates the folder of a new search, and returns it and the data set.
func (t *tuning) create(
	ctx context.Context, machine train.Machine, log io.Writer,
) (dir string, g *kg.Graph, err error) {
	space, err := t.readSpace(ctx)
	if err != nil {
		return "", nil, err
	}
	if err := space.CheckBackend(machine.Backend); err != nil {
		return "", nil, err
	}
	if g, err = openData(ctx, t.plan.Data, log); err != nil {
		return "", nil, err
	}
	if err := space.CheckMemory(ctx, g, machine); err != nil {
		return "", nil, err
	}
	for _, key := range space.Unused() {
		printNote(log, "%s has no effect on any trial of this space", key)
	}
	dir = cmp.Or(t.out, g.Name+"-tune")
	return dir, g, search.Create(dir, g, space, t.plan)
}

// run searches until the budget is spent, all trials are done or ctx is cancelled, and prints the
// best trials.
func (t *tuning) run(ctx context.Context, cmd *cobra.Command, log io.Writer) (err error) {
	backend, err := t.compute.resolve()
	if err != nil {
		return err
	}
	o := search.Options{Machine: train.Machine{Backend: backend, Threads: t.threads}}
	dir := t.resume
	if dir == "" {
		if dir, o.Graph, err = t.create(ctx, o.Machine, log); err != nil {
			return err
		}
	} else if cmd.Flags().Changed("trials") {
		o.Trials = t.plan.Trials
	}
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = resumableError{err, shellCommand("mquine", "tune", "--resume", dir)}
		}
	}()
	show, reading := &tuningLog{meter: newMeter(log), log: log}, newMeter(log)
	o.Progress, o.Reading = show.step, reading.reading("the data set")
	folder, err := search.Open(ctx, dir, o)
	reading.clear()
	if err != nil {
		return err
	}
	defer folder.Close() // the process ends, so an error does not matter
	folder.Begin, folder.End = show.begin, show.end
	limited := ctx
	if budget := cmp.Or(t.plan.Budget, folder.Plan.Budget); budget > 0 {
		show.deadline = time.Now().Add(budget)
		var cancel context.CancelFunc
		limited, cancel = context.WithDeadline(ctx, show.deadline)
		defer cancel()
	}
	show.folder = folder
	printWrapped(log, "searching %s on %s in %s; %s", strings.Join(folder.Space.Open(), ", "), folder.Graph.Name, dir,
		describeRungs(folder.Rungs))
	if lost := folder.LostRungs(); lost > 0 && t.resume == "" {
		printNote(log, "valid_every %d costs %s: lower it to compare trials earlier", folder.ValidEvery(),
			text.Plural(lost, "rung"))
	}
	writeNotes(log, folder.Graph.Notes)
	err = folder.Run(limited)
	show.meter.clear()
	stopped := err != nil && errors.Is(err, limited.Err())
	if err != nil && !stopped {
		return err
	}
	if stopped {
		show.interrupted()
	} else if folder.Exhausted() {
		printLine(log, "the search is complete: %d draws gave no new valid recipe", search.Draws)
	} else {
		printLine(log, "the search is complete with %s; a larger --trials continues it",
			text.Plural(folder.Plan.Trials, "trial"))
	}
	found := newSearchResult(ctx, folder, stopped)
	if t.format == text.FormatTable {
		found.width = text.Width(cmd.OutOrStdout())
	}
	// An interrupted search has a result, too.
	if found.Provenance.Data, err = t.dataOf(context.WithoutCancel(ctx), folder.Graph); err != nil {
		return err
	}
	found.Provenance.Machine.Tier, found.Provenance.Machine.Threads = backend.Tier.String(), t.threads
	if err := t.print(cmd, found); err != nil {
		return err
	}
	if !stopped {
		return folder.Err()
	}
	return ctx.Err()
}

// describeRungs lists the epochs of the rungs.
func describeRungs(rungs []int) string {
	if len(rungs) == 1 {
		return fmt.Sprintf("rung at epoch %d", rungs[0])
	}
	epochs := make([]string, len(rungs))
	for i, epoch := range rungs {
		epochs[i] = strconv.Itoa(epoch)
	}
	return "rungs at epochs " + strings.Join(epochs, ", ")
}

// tuningLog shows the progress of a search.
type tuningLog struct {
	meter    *meter
	log      io.Writer
	folder   *search.Folder
	deadline time.Time // the zero time if there is no budget
	job      search.Job
	running  *run.Run // the run of job, or nil
}

// begin prints the notes of a trial and, as details, its options.
func (l *tuningLog) begin(job search.Job, r *run.Run) {
	l.job, l.running = job, r
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
	printWrapped(details(l.log), "trial %d%s to epoch %d: %s", job.Trial, from, job.Epochs, strings.Join(options, ", "))
}

// step shows the progress within an epoch. It serves as train.Machine.Progress.
func (l *tuningLog) step(p train.Progress) {
	l.meter.show(int64(p.Epoch-1)*int64(p.Total)+int64(p.Done), int64(l.job.Epochs)*int64(p.Total), p.Elapsed,
		fmt.Sprintf("trial %d, epoch %d/%d%s, loss %s, %s", l.job.Trial, p.Epoch, l.job.Epochs, l.left(", "),
			threeDigits(p.Loss.Total), tripleRate(float64(p.Done)/p.Elapsed.Seconds())))
}

// left returns the remaining budget after the separator, or "" if there is no budget.
func (l *tuningLog) left(separator string) string {
	if l.deadline.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s%s left", separator, max(0, time.Until(l.deadline)).Round(time.Second))
}

// end prints the result of a trial at a rung.
func (l *tuningLog) end(trial search.Trial) {
	l.meter.clear()
	l.running = nil
	if trial.Failed != "" {
		printLine(l.log, "trial %d failed: %s", trial.Trial, trial.Failed)
		return
	}
	best := text.Green.Of(l.log, "best")
	if first := l.folder.Ranked()[0]; first.Trial != trial.Trial {
		best = fmt.Sprintf("best %.4f (trial %d)", first.Value, first.Trial)
	}
	fmt.Fprintf(l.log, "trial %d  epoch %d/%d  %s %.4f  %s%s\n", trial.Trial, trial.Trained(),
		l.folder.Rungs[len(l.folder.Rungs)-1], trial.Metric, trial.Value, best, l.left("  "))
}

// interrupted prints the epoch after which a trial stopped because the search ended.
func (l *tuningLog) interrupted() {
	if l.running != nil {
		fmt.Fprintf(l.log, "trial %d  stopped after epoch %d of %d\n", l.job.Trial, l.running.Epoch(), l.job.Epochs)
	}
}
