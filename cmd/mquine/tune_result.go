package main

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/train/run"
	"github.com/mquine/mquine/train/search"
)

// searchResult is the JSON result of tune.
type searchResult struct {
	Schema     string             `json:"schema"`
	Provenance metrics.Provenance `json:"provenance"`
	Dir        string             `json:"dir"`
	// Stopped reports whether the search ended before all trials were done.
	Stopped bool `json:"stopped"`
	// Trials lists the trials that reached a rung or failed, each at its last rung without a failure, best
	// first. Trials that failed before the first rung follow.
	// BestCheckpoint is the checkpoint of the best trial. It is empty if there is no such trial,
	// or if the checkpoint was removed.
	Trials         []search.Trial `json:"trials"`
	BestCheckpoint string         `json:"best_checkpoint,omitempty"`

	folder      *search.Folder
	interrupted bool // the message about the interruption says how to continue
	unfinished  bool // the run of the best trial can continue
	width       int  // the number of columns for the table; 0 means any
}

func newSearchResult(ctx context.Context, s *search.Folder, stopped bool) *searchResult {
	o := &searchResult{
		Schema: "mquine.tune/1", Provenance: provenance(ctx), Dir: s.Dir, Stopped: stopped, Trials: s.Ranked(),
		folder: s, interrupted: ctx.Err() != nil,
	}
	if o.Trials == nil {
		o.Trials = []search.Trial{}
	}
	if o.found() {
		checkpoint := filepath.Join(s.RunDir(o.Trials[0].Trial), "best")
		if _, err := os.Stat(checkpoint); err == nil {
			o.BestCheckpoint = checkpoint
		}
		finished, err := run.ReadFinished(context.WithoutCancel(ctx), s.RunDir(o.Trials[0].Trial))
		o.unfinished = err == nil && finished == ""
	}
	return o
}

// found reports whether a trial has reached the first rung.
func (o *searchResult) found() bool { return len(o.Trials) > 0 && o.Trials[0].Failed == "" }

// maxShown is the maximum number of trials in the table.
const maxShown = 10

// tables returns a table of the best trials and their values of the options that the search varies.
// On a narrow terminal, the last options are missing.
func (o *searchResult) tables() []*text.Table {
	if !o.found() {
		return nil
	}
	return []*text.Table{o.table(o.fitting())}
}

// fitting returns the number of options that the table has room for.
func (o *searchResult) fitting() int {
	options := len(o.folder.Space.Open())
	for o.width > 0 && options > 0 && o.table(options).Width() > o.width {
		options--
	}
	return options
}

// table returns a table of the best trials with the first options that the search varies.
func (o *searchResult) table(options int) *text.Table {
	header := []any{"trial", "epochs", o.Trials[0].Metric, "CPU s"}
	for _, key := range o.folder.Space.Open()[:options] {
		header = append(header, key)
	}
	numbers := make([]int, len(header))
	for i := range numbers {
		numbers[i] = i + 1
	}
	t := text.NewTable(numbers...)
	t.AppendHeader(header)
	for _, trial := range o.Trials[:min(maxShown, len(o.Trials))] {
		value := fmt.Sprintf("%.4f", trial.Value)
		if trial.Failed != "" {
			value = "failed"
		}
		row := []any{trial.Trial, trial.Trained(), value, fmt.Sprintf("%.2f", 60*trial.ProcessorMinutes)}
		for _, option := range o.folder.Space.Values(o.folder.Recipe(trial.Trial))[:options] {
			row = append(row, option)
		}
		t.AppendRow(row)
	}
	return t
}

// records returns a line for each trial.
func (o *searchResult) records() (header []string, rows iter.Seq[[]string]) {
	header = []string{"place", "trial", "epochs", "metric", "value", "best_epoch", "processor_minutes", "failed"}
	var lines [][]string
	for i, trial := range o.Trials {
		line := text.Fields(i+1, trial.Trial, trial.Trained(), trial.Metric, trial.Value, trial.BestEpoch,
			trial.ProcessorMinutes, trial.Failed)
		lines = append(lines, append(line, o.folder.Space.Values(o.folder.Recipe(trial.Trial))...))
	}
	return append(header, o.folder.Space.Open()...), slices.Values(lines)
}

// remarks says where the best trial is, and gives commands that continue from it.
func (o *searchResult) remarks() []string {
	var lines []string
	line := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	wrapped := func(format string, args ...any) {
		lines = append(lines, strings.Split(text.Wrap(text.Escape(fmt.Sprintf(format, args...))), "\n")...)
	}
	s := o.folder
	if len(o.Trials) > 0 && !o.found() {
		line("No trial has succeeded: %s failed.", text.Plural(len(o.Trials), "trial"))
	} else if !o.found() {
		line("No trial has reached the first rung, %s.", text.Plural(s.Rungs[0], "epoch"))
	} else {
		if hidden := s.Space.Open()[o.fitting():]; len(hidden) > 0 {
			wrapped("The table has no room for %s: see %s, or use --format csv.", text.Join(hidden, "and"),
				filepath.Join(o.Dir, "trials.jsonl"))
		}
		if more := len(o.Trials) - maxShown; more > 0 {
			line("%s in %s.", text.Count(more, "more trial is", "more trials are"),
				filepath.Join(o.Dir, "trials.jsonl"))
		}
		best := o.Trials[0]
		dir, diverged := s.RunDir(best.Trial), s.Failure(best.Trial) != ""
		if o.BestCheckpoint == "" {
			line("Best trial: %d. Its checkpoint %s was removed.", best.Trial, filepath.Join(dir, "best"))
		} else {
			line("Best trial: %d. Its checkpoint is %s.", best.Trial, o.BestCheckpoint)
			if !diverged && o.unfinished {
				line("To finish its run:")
				line("  %s", shellCommand("mquine", "train", "--resume", dir))
			}
		}
		if diverged {
			wrapped("It diverged after this rung, so neither its run nor a new run with its options can be completed.")
		} else {
			line("To retrain it from the start:")
			line("  %s",
				shellCommand("mquine", "train", "--data", s.Plan.Data, "--config", filepath.Join(o.Dir, "best.yaml")))
		}
	}
	if o.Stopped && !o.interrupted {
		line("To continue the search:")
		line("  %s", shellCommand("mquine", "tune", "--resume", o.Dir))
	}
	return lines
}
