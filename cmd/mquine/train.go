package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"
	"github.com/mquine/mquine/train/run"
)

func newTrainCommand() *cobra.Command {
	given, err := recipe.DefaultFor(recipe.Default().Model)
	must(err)
	t := &training{given: given}
	cmd := &cobra.Command{
		Use:   "train --data NAME",
		Short: "Train a model on a data set",
		Long: `Train a model on the train split of a data set, with validation.

The run is kept in one folder:

  config.yaml         the data set and all options
  log.jsonl           one line per epoch: loss and its parts, speed, validation
  best/, last/        checkpoints of the epoch with the best validation metric,
                      and of the last epoch
  loss.svg            plot of the loss
  validation.svg      plot of the validation MRR
  state.safetensors   the state that --resume needs

--resume DIR continues a run after an interruption. It repeats at most one
epoch, and the result is the same, bit for bit, as without the interruption. It
refuses to continue if the data set or an option has changed, or if a file of
the run is missing, damaged or out of date. The parameters do not depend on the
number of threads. They are the same with avx512 and avx2, but may differ with
--backend generic.

--resume DIR --epochs N extends a run, or shortens one that has done fewer than
N epochs. It does not work with learning-rate decay, after early stopping, or
for a trial of "mquine tune".

Options come from these sources; later ones override earlier ones:
  1. the defaults of the model, or --preset
  2. --config, a YAML file with any of the keys that --print-config prints
  3. the flags
The defaults below apply to mquine and mquade. To see the defaults of another
model, add --print-config, as in "mquine train --model rotate --print-config".

Presets:
  paper  MQuinE's hyper-parameters from the paper's table, for
         ` + presetDataSets("paper") + `
  best   MQuinE's recipe (docs/results.md), tuned for
         ` + presetDataSets("best") + `
         Other models get its version with one block, except for these, which
         have separate recipes:
` + modelPresets("best") + `To use the preset of a different data set, append its name: paper:yago3-10.`,
		Example: `  mquine train --data codex-s --out ./codex-s
  mquine train --data wn18rr --preset paper --epochs 20 --out ./wn18rr
  mquine train --data umls --model rotate
  mquine train --resume ./wn18rr
  mquine train --resume ./codex-s --epochs 90
  mquine train --preset paper:fb15k-237 --print-config
  mquine eval ./codex-s/best --data codex-s`,
		Args:    noArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return t.check(cmd) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.run(cmd.Context(), cmd, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	addData(cmd, &t.data)
	delete(flags.Lookup("data").Annotations, cobra.BashCompOneRequiredFlag)
	flags.StringVar(&t.out, "out", "",
		"new folder `DIR` for the run (default: named after the data set and the model)")
	must(cmd.MarkFlagDirname("out"))
	flags.StringVar(&t.resume, "resume", "", "continue the run in `DIR`")
	must(cmd.MarkFlagDirname("resume"))
	addPreset(cmd, &t.preset, "start from preset")
	flags.StringVar(&t.configFile, "config", "", "read options from this YAML `FILE`, such as a run's config.yaml")
	markInput(cmd, "config")
	flags.BoolVar(&t.printConfig, "print-config", false, "print the options as YAML and exit")
	t.compute.add(cmd)
	options := t.given.Options()
	t.former = acceptFormerOptions(cmd, options)
	for _, o := range options {
		flags.Var(t.former.value(o), o.Flag(), o.Help)
		if o.Value.Type() == "bool" {
			flags.Lookup(o.Flag()).NoOptDefVal = "true"
		}
		if c, ok := o.Value.(interface{ Choices() []string }); ok {
			complete(cmd, o.Flag(), cobra.FixedCompletions(c.Choices(), cobra.ShellCompDirectiveNoFileComp))
		}
	}
	for group, members := range trainingGroups {
		inGroup(cmd, group, members...)
	}
	return cmd
}

// trainingGroups maps each group in the help of train to its flags.
var trainingGroups = map[string][]string{
	modelFlags:     {"model", "dim", "hyper", "reciprocal", "inverse-weight", "init-std", "init-cross"},
	dataFlags:      {"data"},
	negativesFlags: {"negatives", "negative-count", "anchor-negatives", "distribution", "filter"},
	lossFlags: {"loss", "gamma", "lambda-neg", "adversarial", "smoothing", "subsampling", "answer-weights",
		"max-answers", "degree-weights", "block-losses", "unsquared", "relation-weight", "relation-negatives",
		"z-samples", "lambda-z"},
	regularisationFlags: {
		"regulariser", "lambda-reg", "reg-warmup", "dura-products", "dura-pair", "orthogonality",
		"dropout", "entity-dropout", "relation-dropout", "input-dropout", "feature-map-dropout", "hidden-dropout",
	},
	optimiserFlags: {"optimiser", "learning-rate", "beta1", "beta2", "epsilon", "warmup", "decay", "clip", "epochs",
		"batch", "ema"},
	validationFlags: {"valid-every", "valid-metric", "patience"},
	runFlags:        {"out", "resume", "preset", "config", "print-config", "seed", "products", "backend", "threads"},
}

// addPreset adds the flag --preset. use says what the command does with the preset.
func addPreset(cmd *cobra.Command, preset *string, use string) {
	usage := use + " `NAME`: paper or best, or with a data set, as in paper:yago3-10"
	addChoice(cmd, preset, "preset", usage, recipe.Presets()...)
}

// presetDataSets lists the data sets that have a kind of preset, for a help text.
func presetDataSets(kind string) string {
	var names []string
	for _, preset := range recipe.Presets() {
		if name, ok := strings.CutPrefix(preset, kind+":"); ok {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// modelPresets lists the models other than MQuinE that have their own versions of a kind of preset,
// one per line, for a help text.
func modelPresets(kind string) string {
	var b strings.Builder
	own := recipe.ModelPresets(kind)
	delete(own, "mquine")
	for _, name := range slices.Sorted(maps.Keys(own)) {
		fmt.Fprintf(&b, "           %-8s %s\n", name, strings.Join(own[name], ", "))
	}
	return b.String()
}

// epochsFlag is the flag of the only training option that can be combined with --resume.
const epochsFlag = "epochs"

// training starts or continues a run. It holds the flags of train.
type training struct {
	compute
	data, out, resume, preset, configFile string
	printConfig                           bool
	// given holds the options that flags set.
	given  recipe.Recipe
	former *formerNames
}

// check refuses flags that contradict each other.
func (t *training) check(cmd *cobra.Command) error {
	if t.resume != "" {
		for _, name := range append([]string{"data", "out", "preset", "config", "print-config"}, t.changed(cmd)...) {
			if cmd.Flags().Changed(name) && name != epochsFlag {
				return fmt.Errorf("--%s cannot be given with --resume: a run continues with its own options", name)
			}
		}
		return nil
	}
	if t.printConfig {
		return nil
	}
	if t.data == "" && t.configFile == "" {
		return errors.New("give --data to start a run, or --resume to continue one")
	}
	return nil
}

// changed returns the names of the option flags that the user gave.
func (t *training) changed(cmd *cobra.Command) []string {
	var names []string
	for _, o := range t.given.Options() {
		if cmd.Flags().Changed(o.Flag()) {
			names = append(names, o.Flag())
		}
	}
	return names
}

// config returns the options of a new run. It starts from the preset or the defaults for the model
// that the file or the flags name, and applies the file and then the flags. It does so three times: to
// learn the model; to learn the negatives and the loss, for which Fit turns some options of the preset
// or the defaults off; and after Fit, which must not turn off what the user gives.
func (t *training) config(cmd *cobra.Command) (c recipe.Recipe, err error) {
	c = recipe.Default()
	var file []byte
	if t.configFile != "" {
		if file, err = input.ReadFile(cmd.Context(), t.configFile); err != nil {
			return c, fmt.Errorf("cannot read %s: %w", t.configFile, text.Cause(err))
		}
	}
	if err := t.change(cmd, &c, file); err != nil {
		return c, err
	}
	base, err := recipe.Base(t.preset, t.data, c.Model)
	if err != nil {
		return c, err
	}
	c = base
	if err := t.change(cmd, &c, file); err != nil {
		return c, err
	}
	c = base.Fit(c)
	if err := t.change(cmd, &c, file); err != nil {
		return c, err
	}
	if err := c.Check(); err != nil {
		base.Model = c.Model
		if unsuited := base.Check(); t.preset != "" && unsuited != nil && unsuited.Error() == err.Error() {
			err = fmt.Errorf("--preset %s is a recipe for mquine, and some of its options do not suit %s: %w; "+
				"or leave out --preset", t.preset, c.Model, err)
		}
		return c, err
	}
	return c, nil
}

// change sets the options of c that the file and the flags set.
func (t *training) change(cmd *cobra.Command, c *recipe.Recipe, file []byte) error {
	others, err := c.Read(bytes.NewReader(file), t.configFile, run.DataKey)
	if err != nil {
		return err
	}
	t.data = cmp.Or(t.data, others[run.DataKey])
	given := t.given.Options()
	for i, o := range c.Options() {
		if cmd.Flags().Changed(o.Flag()) {
			if err := o.Value.Set(given[i].Value.String()); err != nil {
				return fmt.Errorf("--%s: %w", o.Flag(), err)
			}
		}
	}
	return nil
}

// run prints the options, or trains.
func (t *training) run(ctx context.Context, cmd *cobra.Command, out, log io.Writer) error {
	if t.printConfig {
		c, err := t.config(cmd)
		if err != nil {
			return err
		}
		return writeOutput(cmd, c.YAML())
	}
	backend, err := t.compute.resolve()
	if err != nil {
		return err
	}
	o := run.Options{Machine: train.Machine{Backend: backend, Threads: t.threads}}
	dir := t.resume
	if dir == "" {
		if dir, o.Graph, err = t.create(ctx, cmd, o.Machine, log); err != nil {
			return err
		}
	} else if cmd.Flags().Changed(epochsFlag) {
		o.Epochs = t.given.Epochs
	}
	err = t.train(ctx, dir, o, out, log)
	if err != nil && ctx.Err() != nil {
		again := []string{"mquine", "train", "--resume", dir}
		if o.Epochs != 0 {
			again = append(again, "--"+epochsFlag, strconv.Itoa(o.Epochs))
		}
		return resumableError{err, shellCommand(again...)}
	}
	return err
}

// create creates the folder of a new run, and returns it and the data set.
func (t *training) create(
	ctx context.Context, cmd *cobra.Command, machine train.Machine, log io.Writer,
) (dir string, g *kg.Graph, err error) {
	c, err := t.config(cmd)
	if err != nil {
		return "", nil, err
	}
	if t.data == "" {
		return "", nil, fmt.Errorf("%s names no data set: give --data", t.configFile)
	}
	if g, err = openData(ctx, t.data, log); err != nil {
		return "", nil, err
	}
	if err := c.CheckBackend(machine.Backend); err != nil {
		return "", nil, err
	}
	if err := train.CheckMemory(ctx, g, machine, c); err != nil {
		return "", nil, err
	}
	t.noteUnused(cmd, c, log)
	dir = cmp.Or(t.out, g.Name+"-"+c.Model)
	return dir, g, run.Create(dir, t.data, g, c)
}

// noteUnused names the flags that have no effect on a run with the given options. Options in a file may
// have no effect without a note, because --print-config writes all of them.
func (t *training) noteUnused(cmd *cobra.Command, c recipe.Recipe, log io.Writer) {
	unused := c.Unused()
	if c.Decay == recipe.NoDecay {
		delete(unused, "decay") // the flag asks for what happens
	}
	if c.Patience == 0 {
		delete(unused, "patience")
	}
	for _, o := range c.Options() {
		if reason, found := unused[o.Key]; found && cmd.Flags().Changed(o.Flag()) {
			printNote(log, "--%s has no effect with %s", o.Flag(), reason)
		}
	}
	if c.ZSamples > 0 && c.LambdaZ == 0 && (cmd.Flags().Changed("z-samples") || cmd.Flags().Changed("lambda-z")) {
		printNote(log, "the Z-samples have weight 0 (lambda_z), so they only take time: set --z-samples 0")
	}
}

// train completes the run in dir and prints the result to out.
func (t *training) train(ctx context.Context, dir string, o run.Options, out, log io.Writer) error {
	meter := newMeter(log)
	show, reading := &trainingLog{meter: meter, log: log}, newMeter(log)
	o.Progress, o.Reading = show.step, reading.reading("the data set")
	r, err := run.Open(ctx, dir, o)
	reading.clear()
	if err != nil {
		return err
	}
	defer r.Close() // the process ends, so an error does not matter
	if r.Finished() != "" {
		return unprinted(printLine(out, "%s is finished: %s; %s", dir, r.Finished(), describeBest(r)))
	}
	show.begin(r, dir)
	err = r.Train(ctx, show.epoch)
	meter.clear()
	if err != nil {
		return err
	}
	return unprinted(printLine(out, "%s: %s; %s", dir, r.Finished(), describeBest(r)))
}

// describeBest describes the best epoch of a run.
func describeBest(r *run.Run) string {
	epoch, value := r.Best()
	if epoch == 0 {
		return "no epoch was validated"
	}
	text := fmt.Sprintf("best epoch %d, valid %v %.4f", epoch, r.Recipe.ValidMetric, value)
	if _, err := os.Stat(filepath.Join(r.Dir, "best")); err != nil {
		text += " (its checkpoint was removed)"
	}
	return text
}

// trainingLog shows the progress of a run.
type trainingLog struct {
	meter  *meter
	log    io.Writer
	run    *run.Run
	start  time.Time
	before int // epochs that were complete before start
}

// begin prints what the run trains, and how it validates.
func (l *trainingLog) begin(r *run.Run, dir string) {
	l.run, l.start, l.before = r, time.Now(), r.Epoch()
	c := r.Recipe
	printLine(l.log, "training %s, d = %d, on %s in %s", c.Model, c.Dim, r.Graph.Name, dir)
	printLine(details(l.log), "%s, %s", sizes(r.Graph.Entities.Len(), r.Graph.Relations.Len()),
		text.Plural(r.Triples(), "training triple"))
	if c.ValidEvery > 0 {
		m := c.ValidMetric
		fmt.Fprintf(l.log, "validation: %s, side %v, filter %v, realistic ties, %s\n", metrics.MetricName(m.Name),
			m.Side, m.Filter, text.Plural(len(r.Graph.Splits[kg.Valid]), "triple"))
	}
	writeNotes(l.log, slices.Concat(r.Graph.Notes, r.Notes))
	if l.before > 0 {
		fmt.Fprintf(l.log, "resuming at epoch %d of %d\n", l.before+1, c.Epochs)
	}
}

// step shows the progress within an epoch. It serves as train.Machine.Progress.
func (l *trainingLog) step(p train.Progress) {
	rate := float64(p.Done) / p.Elapsed.Seconds()
	total := int64(p.Total)
	done := int64(p.Epoch-1)*total + int64(p.Done)
	left := remaining(done-int64(l.before)*total, int64(p.Epochs-l.before)*total, time.Since(l.start))
	l.meter.show(done, int64(p.Epochs)*total, p.Elapsed, fmt.Sprintf("epoch %d/%d%s, loss %s, %s", p.Epoch, p.Epochs,
		left, threeDigits(p.Loss.Total), tripleRate(rate)))
}

// epoch prints a line with the loss, speed and validation of an epoch. Details follow.
func (l *trainingLog) epoch(e run.Epoch) {
	l.meter.clear()
	l.meter.nextLine = lineEvery
	fmt.Fprintln(l.log, epochLine(e, l.run.Recipe, l.log))
	l.epochDetails(details(l.log), e)
	if c := l.run.Recipe; e.Epoch == 1 && c.ZSamples > 0 && c.LambdaZ > 0 && e.Loss.Z == 0 {
		printNote(l.log, "epoch 1 has no Z-samples, because no negatives have Z-patterns: "+
			"on such data, leave out --z-samples")
	}
}

// epochLine describes an epoch in a line of at most helpWidth columns, for log.
func epochLine(e run.Epoch, c recipe.Recipe, log io.Writer) string {
	fields := []string{fmt.Sprintf("epoch %d/%d", e.Epoch, c.Epochs), fmt.Sprintf("loss %s", threeDigits(e.Loss.Total))}
	if len(e.Valid) > 0 {
		m := c.ValidMetric
		valid := fmt.Sprintf("valid %s %.3f", metrics.MetricName(m.Name), e.Valid.Of(m))
		if m.Side == rank.BothSides {
			of := func(side rank.Sides) string {
				return strings.TrimPrefix(fmt.Sprintf("%.3f", e.Valid.Of(recipe.Metric{Name: m.Name, Side: side,
					Filter: m.Filter})), "0")
			}
			valid += fmt.Sprintf(" (tail %s head %s)", of(rank.TailSide), of(rank.HeadSide))
		}
		fields = append(fields, valid)
	}
	const best = "best"
	rate := tripleRate(e.TriplesPerSecond)
	if line := strings.Join(append(fields, rate, best), "  "); utf8.RuneCountInString(line) <= helpWidth {
		fields = append(fields, rate)
	}
	if e.Best {
		fields = append(fields, text.Green.Of(log, best))
	}
	return strings.Join(fields, "  ")
}

// epochDetails prints the time of an epoch, the parts of the loss, and the MRR on each side under
// each filter.
func (l *trainingLog) epochDetails(w io.Writer, e run.Epoch) {
	fmt.Fprintf(w, "  %.1f s, validation %.1f s, learning rate %.3g, loss %s\n", e.Seconds, e.ValidSeconds,
		e.LearningRate, l.parts(e.Loss))
	for f := range rank.NumFilters {
		var values []string
		for _, s := range e.Valid {
			if s.Filter == f {
				values = append(values, fmt.Sprintf("%v %.4f", s.Side, s.MRR))
			}
		}
		if values != nil {
			fmt.Fprintf(w, "  valid MRR, filter %-5v  %s\n", f, strings.Join(values, "  "))
		}
	}
}

// parts returns a loss as text, with its parts if it has several.
func (l *trainingLog) parts(loss train.Loss) string {
	text := fmt.Sprintf("%.4f", loss.Total)
	var parts []string
	if c := l.run.Recipe; c.ZSamples > 0 || loss.Relations != 0 || loss.Regulariser != 0 {
		parts = append(parts, fmt.Sprintf("fit %.4f", loss.Fit))
		if c.ZSamples > 0 {
			parts = append(parts, fmt.Sprintf("Z %.4f", loss.Z))
		}
		if loss.Relations != 0 {
			parts = append(parts, fmt.Sprintf("relations %.4f", loss.Relations))
		}
		if loss.Regulariser != 0 {
			parts = append(parts, fmt.Sprintf("regulariser %.4f", loss.Regulariser))
		}
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}
