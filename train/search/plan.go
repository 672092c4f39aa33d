package search

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/mquine/mquine/train/internal/setting"
	"github.com/mquine/mquine/train/run"
)

// Plan holds the data set, the seed and the limits of a search.
type Plan struct {
	Data   string // name or folder of the data set
	Seed   uint64
	Rungs  int
	Trials int           // largest number; 0 for no limit
	Budget time.Duration // 0 for no limit; the caller of Folder.Run enforces it
	// SameTrial is the version of the rule that decides which recipes are the same trial, so that a search
	// from an earlier version keeps its trials. It is 0 in searches that do not name it, and sameTrial in
	// new ones.
	SameTrial int
	// Fingerprint identifies the data set that was passed to Create. It is nil in searches from
	// earlier versions.
	Fingerprint run.Fingerprint
}

// sameTrial is the rule of new searches: recipes with the same recipe.Recipe.Effective are the same trial. A
// change to Effective needs a new rule. In rule 0, an ineffective decay or patience, or a larger EMA with
// the same effect, made a different trial.
const sameTrial = 1

// sameTrialKey is the key of the rule in search.yaml. Earlier versions did not write it.
const sameTrialKey = "same_trial"

// options returns the settings that search.yaml must contain.
func (p *Plan) options() []setting.Setting {
	return []setting.Setting{
		{Key: run.DataKey, Help: "the data set: its name, or its folder", Value: (*dataName)(&p.Data)},
		{Key: "seed", Help: "seed of the search", Value: setting.Seed(&p.Seed)},
		{Key: "rungs", Help: "number of rungs", Value: setting.Whole(&p.Rungs, 0, math.MaxInt32)},
		{Key: "trials", Help: "largest number of trials; 0 for no limit",
			Value: setting.Whole(&p.Trials, 0, math.MaxInt32)},
		{Key: "budget", Help: "time limit of each run of the search; 0s for no limit",
			Value: (*budget)(&p.Budget)},
	}
}

func (p *Plan) rule() setting.Setting {
	return setting.Setting{
		Key: sameTrialKey, Help: "version of the rule that decides which options are the same trial",
		Value: setting.Whole(&p.SameTrial, 0, sameTrial),
	}
}

// yaml returns the contents of search.yaml.
func (p *Plan) yaml() ([]byte, error) {
	text, err := run.DataLine(p.Data)
	text = append(text, setting.YAML(p.options()[1:], func(o setting.Setting) string { return o.Value.String() })...)
	if p.SameTrial != 0 {
		text = append(text, setting.YAML([]setting.Setting{p.rule()}, func(o setting.Setting) string {
			return o.Value.String()
		})...)
	}
	if len(p.Fingerprint) == 0 {
		return text, err
	}
	text = append(text, "# the data set: sizes and SHA-256 of its parts\n"+fingerprintKey+":\n"...)
	for _, key := range slices.Sorted(maps.Keys(p.Fingerprint)) {
		text = fmt.Appendf(text, "  %s: %s\n", key, p.Fingerprint[key])
	}
	return text, err
}

// fingerprintKey is the key of the fingerprint in search.yaml. Earlier versions did not write it.
const fingerprintKey = "fingerprint"

// read reads search.yaml, which must contain all options. In errors, name is the name of the file.
func (p *Plan) read(r io.Reader, name string) error {
	root, err := setting.ReadMapping(r, name)
	if err != nil {
		return err
	}
	options, given := p.options(), map[string]bool{}
	err = setting.EachPair(root, name, func(key, value *yaml.Node) error {
		if key.Value == fingerprintKey {
			return p.readFingerprint(value, name)
		}
		o, err := setting.Find(append(options, p.rule()), key, name, fingerprintKey)
		if err != nil {
			return err
		}
		given[key.Value] = true
		return o.Read(value, name)
	})
	if err != nil {
		return err
	}
	for _, o := range options {
		if !given[o.Key] {
			return fmt.Errorf("%s: %s is missing (%s): restore the file", name, o.Key, o.Help)
		}
	}
	return nil
}

func (p *Plan) readFingerprint(value *yaml.Node, name string) error {
	if value.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: %s needs a line for each part of the data set: restore the file",
			name, value.Line, fingerprintKey)
	}
	p.Fingerprint = map[string]string{}
	return setting.EachPair(value, name, func(part, summary *yaml.Node) error {
		p.Fingerprint[part.Value] = summary.Value
		return nil
	})
}

// dataName is a setting.Value for the name or the folder of a data set.
type dataName string

func (d *dataName) String() string { return string(*d) }
func (d *dataName) Type() string   { return "name" }
func (d *dataName) Range() string  { return "name or folder" }

func (d *dataName) Set(text string) error {
	if text == "" {
		return errors.New("must be the name of a data set, or its folder")
	}
	*d = dataName(text)
	return nil
}

// budget is a setting.Value for a time limit. 0 means no limit.
type budget time.Duration

func (b *budget) String() string { return time.Duration(*b).String() }
func (b *budget) Type() string   { return "time" }
func (b *budget) Range() string  { return "at least 0s" }

func (b *budget) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return errors.New("must be a time such as 90m or 2h, or 0s for no limit")
	}
	*b = budget(d)
	return nil
}
