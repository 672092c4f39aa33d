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
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"
	trainrun "github.com/mquine/mquine/train/run"
)

func newTrainCommand() *cobra.Command {
	t := &training{given: recipe.Default()}
	cmd := &cobra.Command{
		Use:   "train --data NAME",
		Short: "Train a model on a data set",
		Long: `Train MQuinE, or the model that --model names, on the training split of a data set, validate it as
it goes, and keep all of it in a folder:

  config.yaml         the data set and all options
  log.jsonl           an epoch a line: loss and its parts, speed, validation
  best/, last/        checkpoints, of the best validated epoch and of the last one
  loss.svg, validation.svg
  state.safetensors   what --resume needs

The folder can be taken up again after any interruption: --resume DIR loses at most the epoch
that was under way, and ends with the same bytes as a training that was not interrupted. Where
it could not, it does not go on and says why: the data set or an option is not what the training
began with, or a file of the folder is missing, damaged or from another time. The parameters do
not depend on the number of threads. --resume DIR --epochs N gives a training another number of
epochs, unless its learning rate falls, it has stopped early, or it is a trial of mquine tune.

Options come from, in this order: the defaults of the model, or --preset; --config, a YAML file
with any of the keys that --print-config prints; the flags. The defaults below are those of mquine
and mquade; --model rotate --print-config prints those of rotate.

--preset paper takes the row of the data set in the paper's table of hyper-parameters, and
paper:yago3-10 a row by name; --preset best takes the best recipe that has been measured
(docs/results.md).`,
		Example: `  mquine train --data codex-s --out ./codex-s
  mquine train --data wn18rr --preset paper --epochs 20 --out ./wn18rr
  mquine train --data umls --model rotate
  mquine train --resume ./wn18rr
  mquine train --resume ./codex-s --epochs 60
  mquine train --preset paper:fb15k-237 --print-config
  mquine eval --model ./codex-s/best --data codex-s`,
		Args:    noArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return t.check(cmd) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			writeNotes(cmd.ErrOrStderr(), t.former.notes)
			return t.run(cmd.Context(), cmd, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	addData(cmd, &t.data)
	delete(flags.Lookup("data").Annotations, cobra.BashCompOneRequiredFlag)
	flags.StringVar(&t.out, "out", "", "`folder` of the training, which must not exist (default: named after the data set and the model)")
	must(cmd.MarkFlagDirname("out"))
	flags.StringVar(&t.resume, "resume", "", "`folder` of a training to go on with")
	must(cmd.MarkFlagDirname("resume"))
	addPreset(cmd, &t.preset, "")
	flags.StringVar(&t.configFile, "config", "", "YAML `file` of options")
	flags.BoolVar(&t.printConfig, "print-config", false, "print the options as YAML and end")
	t.compute.add(cmd)
	options := t.given.Options()
	t.former = newFormerNames(flags, options)
	for _, o := range options {
		flags.Var(t.former.value(o), o.Flag(), o.Help)
		if o.Value.Type() == "bool" {
			flags.Lookup(o.Flag()).NoOptDefVal = "true"
		}
		if c, ok := o.Value.(interface{ Choices() []string }); ok {
			complete(cmd, o.Flag(), cobra.FixedCompletions(c.Choices(), cobra.ShellCompDirectiveNoFileComp))
		}
	}
	return cmd
}

// addPreset adds the flag --preset, whose help begins with prefix.
func addPreset(cmd *cobra.Command, preset *string, prefix string) {
	cmd.Flags().StringVar(preset, "preset", "", prefix+"`name`, paper or best, with the data set's row or another one as in paper:yago3-10")
	complete(cmd, "preset", cobra.FixedCompletions(recipe.Presets(), cobra.ShellCompDirectiveNoFileComp))
}

// epochsFlag is the only option that goes with --resume.
const epochsFlag = "epochs"

// training is a training as the user asks for it.
type training struct {
	compute
	data, out, resume, preset, configFile string
	printConfig                           bool
	// given has the options of the flags.
	given  recipe.Recipe
	former *formerNames
}

// check refuses flags that do not go together.
func (t *training) check(cmd *cobra.Command) error {
	if t.resume != "" {
		for _, name := range append([]string{"data", "out", "preset", "config", "print-config"}, t.changed(cmd)...) {
			if cmd.Flags().Changed(name) && name != epochsFlag {
				return fmt.Errorf("--%s cannot be given with --resume: a training goes on with the options in its folder", name)
			}
		}
		return nil
	}
	if t.printConfig {
		return nil
	}
	if t.data == "" {
		return errors.New("--data is missing, or --resume")
	}
	return nil
}

// changed returns the flags of options that are given.
func (t *training) changed(cmd *cobra.Command) []string {
	var names []string
	for _, o := range t.given.Options() {
		if cmd.Flags().Changed(o.Flag()) {
			names = append(names, o.Flag())
		}
	}
	return names
}

// config returns the options: the preset's, or else the defaults of the model that the file or the flags name, changed by
// the file, changed by the flags.
func (t *training) config(cmd *cobra.Command) (c recipe.Recipe, err error) {
	c = recipe.Default()
	if t.preset != "" {
		if c, err = recipe.Preset(t.preset, t.data); err != nil {
			return c, err
		}
	}
	var file []byte
	if t.configFile != "" {
		if file, err = input.ReadFile(cmd.Context(), t.configFile); err != nil {
			return c, fmt.Errorf("reading %s: %w", t.configFile, text.Cause(err))
		}
	}
	if err := t.change(cmd, &c, file); err != nil {
		return c, err
	}
	if t.preset == "" {
		if c, err = recipe.DefaultFor(c.Model); err != nil {
			return c, err
		}
		if err := t.change(cmd, &c, file); err != nil {
			return c, err
		}
	}
	return c, c.Check()
}

// change sets the options that the file and the flags have.
func (t *training) change(cmd *cobra.Command, c *recipe.Recipe, file []byte) error {
	if _, err := c.Read(bytes.NewReader(file), t.configFile); err != nil {
		return err
	}
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
	dir := t.resume
	if dir != "" && cmd.Flags().Changed(epochsFlag) {
		if err := trainrun.Extend(ctx, dir, t.given.Epochs); err != nil {
			return err
		}
	}
	if dir == "" {
		c, err := t.config(cmd)
		if err != nil {
			return err
		}
		g, err := openData(ctx, t.data, log)
		if err != nil {
			return err
		}
		if dir = t.out; dir == "" {
			dir = g.Name + "-" + c.Model
		}
		if err := c.CheckBackend(backend); err != nil {
			return err
		}
		if err := train.CheckMemory(g, train.Machine{Backend: backend, Threads: t.threads}, c); err != nil {
			return err
		}
		if err := trainrun.Create(dir, t.data, g, c); err != nil {
			return err
		}
	}
	meter := newMeter(log)
	show, reading := &trainingLog{meter: meter, log: log}, newMeter(log)
	r, err := trainrun.Open(ctx, dir, train.Machine{
		Backend: backend, Threads: t.threads, Progress: show.step, Reading: reading.reading("the data set"),
	})
	reading.clear()
	if err != nil {
		return err
	}
	defer r.Close() // of no consequence: the process ends
	if r.Finished() != "" {
		return printLine(out, "%s is finished: %s; %s", dir, r.Finished(), describeBest(r))
	}
	show.begin(r, dir)
	err = r.Train(ctx, show.epoch)
	meter.clear()
	if err != nil {
		return err
	}
	return printLine(out, "%s: %s; %s", dir, r.Finished(), describeBest(r))
}

// describeBest names the best epoch of a run.
func describeBest(r *trainrun.Run) string {
	epoch, value := r.Best()
	if epoch == 0 {
		return "nothing was validated"
	}
	text := fmt.Sprintf("the best is epoch %d, %v %.4f on the validation split", epoch, r.Recipe.ValidMetric, value)
	if _, err := os.Stat(filepath.Join(r.Dir, "best")); err != nil {
		text += ", but its checkpoint was removed meanwhile"
	}
	return text
}

// trainingLog shows how a training goes.
type trainingLog struct {
	meter  *meter
	log    io.Writer
	run    *trainrun.Run
	start  time.Time
	before int // epochs when it began
}

func (l *trainingLog) begin(r *trainrun.Run, dir string) {
	l.run, l.start, l.before = r, time.Now(), r.Epoch()
	c := r.Recipe
	printLine(l.log, "training %s, d = %d, on %s (%s, %s training triples) in %s", c.Model, c.Dim, r.Graph.Name,
		sizes(r.Graph.Entities.Len(), r.Graph.Relations.Len()), text.Comma(r.Triples()), dir)
	writeNotes(l.log, r.Notes)
	if l.before > 0 {
		fmt.Fprintf(l.log, "going on after epoch %d of %d\n", l.before, c.Epochs)
	}
}

// step is a train.Machine.Progress.
func (l *trainingLog) step(p train.Progress) {
	rate := float64(p.Done) / p.Elapsed.Seconds()
	epochs := float64(p.Epoch-1-l.before) + float64(p.Done)/float64(p.Total)
	left := time.Duration(float64(time.Since(l.start)) / epochs * (float64(p.Epochs-l.before) - epochs)).Round(time.Second)
	l.meter.show(int64(p.Done), int64(p.Total), p.Elapsed, fmt.Sprintf("epoch %d of %d, loss %s, %s triples/s, %s left in all",
		p.Epoch, p.Epochs, l.parts(p.Loss), quantity(rate), left))
}

// parts writes a loss, with its parts if it has several.
func (l *trainingLog) parts(loss train.Loss) string {
	text := fmt.Sprintf("%.4f", loss.Total)
	var parts []string
	if c := l.run.Recipe; c.ZSamples > 0 || loss.Regulariser != 0 {
		parts = append(parts, fmt.Sprintf("fit %.4f", loss.Fit))
		if c.ZSamples > 0 {
			parts = append(parts, fmt.Sprintf("Z %.4f", loss.Z))
		}
		if loss.Regulariser != 0 {
			parts = append(parts, fmt.Sprintf("regulariser %.4f", loss.Regulariser))
		}
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}

// epoch prints the line of an epoch.
func (l *trainingLog) epoch(e train.Epoch) {
	l.meter.clear()
	l.meter.nextLine = lineEvery
	text := fmt.Sprintf("epoch %d  loss %s  %s triples/s  %.1f s", e.Epoch, l.parts(e.Loss), quantity(e.TriplesPerSecond), e.Seconds)
	for _, f := range []rank.Filter{rank.Train, rank.All} {
		var values []string
		for _, s := range e.Valid {
			if s.Filter == f {
				values = append(values, fmt.Sprintf("%v %.4f", s.Side, s.MRR))
			}
		}
		if values != nil {
			text += fmt.Sprintf("  valid MRR, filter %v: %s", f, strings.Join(values, " "))
		}
	}
	if e.Best {
		text += "  best"
	}
	fmt.Fprintln(l.log, text)
}
