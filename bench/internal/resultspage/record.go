package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// protocols lists the side/filter pairs of an MRR, in the order of the tables. The text of the
// MQuinE paper describes tail/train, but its figures are possible only on tail/all
// (docs/evaluation.md).
var protocols = []string{"tail/train", "head/train", "both/train", "tail/all", "head/all", "both/all"}

// These are the main protocols of the tables.
const (
	paperProtocol = "tail/all"
	fullProtocol  = "both/all"
)

// dataset is a line of datasets.jsonl, together with the runs on that data set.
type dataset struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Best is the name of the preset's run, with seed 1, that has the best validation MRR. It is empty if
	// the data set has no tuned recipe.
	Best string `json:"best"`
	// Paper is the test MRR that the MQuinE paper reports, or 0 if it reports none. The tables
	// compare it with tail/all.
	Paper float64 `json:"paper"`

	runs []record
}

// record holds a training run and its figures on the test split.
type record struct {
	Dataset string `json:"dataset"`
	// Run names the run within its data set. Documents refer to it, so it changes only if a preset does:
	// names with "best" belong to the current presets.
	Run string `json:"run"`
	// Group names the tables that contain the run: the tuned runs if it is empty, the runs with the
	// recipe of a class of models, the runs with the plain recipe of the ablation, the runs that change
	// one ingredient of a recipe, the runs with the paper's recipe, or the ensembles of other runs.
	Group  string `json:"group"`
	Model  string `json:"model"`
	Recipe string `json:"recipe"`
	// Options holds the arguments that follow `mquine train --data NAME`, or the names of the runs in an
	// ensemble.
	Options string `json:"options"`
	// Weights are the weights of the runs in an ensemble.
	Weights []float64 `json:"weights"`
	Seed    uint64    `json:"seed"`
	Date    string    `json:"date"`
	Commit  string    `json:"commit"`
	Machine string    `json:"machine"`
	Threads int       `json:"threads"`
	// ProcessorTime and Time cover training and validation. Time is wall-clock time.
	ProcessorTime string `json:"processor_time"`
	Time          string `json:"time"`
	Epochs        int    `json:"epochs"`

	// MRR maps protocols to values. Hits1, Hits10 and CI belong to both/all.
	MRR    map[string]float64 `json:"mrr"`
	Hits1  float64            `json:"hits1"`
	Hits10 float64            `json:"hits10"`
	CI     *interval          `json:"ci"`
	// Cases maps Z-cases to Hits@10 of tail/all.
	Cases  map[string]float64 `json:"cases"`
	Paired []difference       `json:"paired"`
	// Valid is the curve of both/all on the validation split: pairs of an epoch and a value.
	Valid [][2]float64 `json:"valid"`
	Note  string       `json:"note"`
}

// These are the groups of runs other than the tuned runs.
const (
	firstGroup       = "first"
	plainGroup       = "plain"
	ingredientsGroup = "ingredients"
	paperGroup       = "paper"
	ensembleGroup    = "ensemble"
)

var groups = []string{"", firstGroup, plainGroup, ingredientsGroup, paperGroup, ensembleGroup}

// zCases are the Z-cases (docs/zvalues.md).
var zCases = []string{"easy", "neutral", "hard"}

// interval is a 95% interval with the units that its bootstrap resampled (docs/intervals.md).
type interval struct {
	By   string  `json:"by"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// difference is the MRR of a run minus the MRR of the run Less, as `mquine compare` reports it.
type difference struct {
	Less       string   `json:"less"`
	Protocol   string   `json:"protocol"`
	Difference float64  `json:"difference"`
	Low        *float64 `json:"low"`
	High       *float64 `json:"high"`
	P          *float64 `json:"p"`
}

// load reads and checks the records in a folder.
func load(folder string) ([]*dataset, error) {
	datasets, err := readLines[*dataset](filepath.Join(folder, "datasets.jsonl"))
	if err != nil {
		return nil, err
	}
	for _, d := range datasets {
		path := filepath.Join(folder, d.Name+".jsonl")
		if d.runs, err = readLines[record](path); err != nil {
			return nil, err
		}
		if err := d.check(path); err != nil {
			return nil, err
		}
	}
	return datasets, nil
}

// readLines reads a file of JSON objects.
func readLines[T any](path string) ([]T, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []T
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	for {
		var x T
		if err := decoder.Decode(&x); err == io.EOF {
			return all, nil
		} else if err != nil {
			line := 1 + bytes.Count(text[:decoder.InputOffset()], []byte("\n"))
			return nil, fmt.Errorf("%s:%d: %w", path, line, err)
		}
		all = append(all, x)
	}
}

// rounding is the largest difference between a figure and its value computed from two other
// figures, if all three are rounded to four digits.
const rounding = 1.01e-4

// run returns the run with the given name, or nil.
func (d *dataset) run(name string) *record {
	for i := range d.runs {
		if d.runs[i].Run == name {
			return &d.runs[i]
		}
	}
	return nil
}

// check returns an error if the runs contain mistakes, such as figures that contradict each other.
func (d *dataset) check(path string) error {
	earlier := map[string]record{}
	for i, r := range d.runs {
		bad := func(format string, args ...any) error {
			return fmt.Errorf("%s:%d: %s", path, i+1, fmt.Sprintf(format, args...))
		}
		full, ok := r.MRR[fullProtocol]
		switch {
		case r.Dataset != d.Name:
			return bad("dataset is %q", r.Dataset)
		case r.Run == "":
			return bad("run has no name")
		case !slices.Contains(groups, r.Group):
			return bad("unknown group %q", r.Group)
		case earlier[r.Run].Run != "":
			return bad("duplicate run %q", r.Run)
		case !ok || len(r.MRR) != 1 && len(r.MRR) != len(protocols):
			return bad("mrr needs %s alone or all of %v", fullProtocol, protocols)
		case r.CI != nil && !(r.CI.Low <= full && full <= r.CI.High):
			return bad("mrr %s is outside its interval", fullProtocol)
		}
		for protocol, mrr := range r.MRR {
			if !(0 < mrr && mrr <= 1) {
				return bad("mrr %s is %v", protocol, mrr)
			}
		}
		if (r.Group == "" || r.Group == paperGroup || r.Group == ensembleGroup) && r.CI != nil && r.CI.By != "triple" {
			return bad("the interval of group %q must resample triples", r.Group)
		}
		if r.Group == ensembleGroup {
			members := strings.Fields(r.Options)
			switch {
			case len(members) != len(r.Weights):
				return bad("%d runs have %d weights", len(members), len(r.Weights))
			case r.CI == nil:
				return bad("an ensemble must have an interval")
			case len(r.Paired) != 1 || !slices.Contains(members, r.Paired[0].Less):
				return bad("an ensemble must be compared with one of its members")
			}
			for _, m := range members {
				if earlier[m].Run == "" {
					return bad("member %q is not an earlier run", m)
				}
			}
		}
		for name, hits := range r.Cases {
			if !slices.Contains(zCases, name) || !(0 <= hits && hits <= 1) {
				return bad("Hits@10 of case %q is %v", name, hits)
			}
		}
		for _, filter := range []string{"train", "all"} {
			if len(r.MRR) == 1 {
				break
			}
			mean := (r.MRR["tail/"+filter] + r.MRR["head/"+filter]) / 2
			if math.Abs(mean-r.MRR["both/"+filter]) > rounding {
				return bad("mrr both/%s is not the mean of tail and head", filter)
			}
		}
		for _, p := range r.Paired {
			less, ok := earlier[p.Less]
			if !ok {
				return bad("paired with %q, which is not an earlier run", p.Less)
			}
			got, ok := r.MRR[p.Protocol]
			if !ok || math.Abs(got-less.MRR[p.Protocol]-p.Difference) > rounding {
				return bad("%s is not %v above %s", p.Protocol, p.Difference, p.Less)
			}
			if (p.Low == nil) != (p.High == nil) {
				return bad("the interval of the difference from %s has only one end", p.Less)
			}
			if p.Low != nil && !(*p.Low <= p.Difference && p.Difference <= *p.High) {
				return bad("the difference from %s is outside its interval", p.Less)
			}
		}
		earlier[r.Run] = r
	}
	if d.Best != "" && d.run(d.Best) == nil {
		return fmt.Errorf("%s has no run %q", path, d.Best)
	}
	return nil
}
