package train

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/mquine/mquine/internal/text"
)

// options are the keys of search.yaml.
func (p *Plan) options() []Option {
	return []Option{
		{dataKey, "the data set: its name, or its folder", (*dataName)(&p.Data)},
		{"seed", "seed of the search", (*seed)(&p.Seed)},
		{"rungs", "number of rungs", whole(&p.Rungs, 0, math.MaxInt32)},
		{"trials", "most trials; 0 for no limit", whole(&p.Trials, 0, math.MaxInt32)},
		{"budget", "time that a run of the search takes; 0s for no limit", (*budget)(&p.Budget)},
	}
}

// yaml writes search.yaml.
func (p *Plan) yaml() ([]byte, error) {
	text, err := dataLine(p.Data)
	for _, o := range p.options()[1:] {
		text = fmt.Appendf(text, "# %s\n%s: %s\n", o.Help, o.Key, o.Value)
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

// fingerprintKey is the key of search.yaml for the fingerprint of the data set, which earlier versions did not write.
const fingerprintKey = "fingerprint"

// read reads search.yaml, which has all of the options. name is the file's, for messages.
func (p *Plan) read(r io.Reader, name string) error {
	root, err := readMapping(r, name)
	if err != nil {
		return err
	}
	options, given := p.options(), map[string]bool{}
	var keys []string
	for _, o := range options {
		keys = append(keys, o.Key)
	}
	if root != nil {
		err = eachPair(root, name, func(key, value *yaml.Node) error {
			if key.Value == fingerprintKey {
				if value.Kind != yaml.MappingNode {
					return fmt.Errorf("%s:%d: %s needs a line for each part of the data set: restore the file", name, value.Line, key.Value)
				}
				p.Fingerprint = map[string]string{}
				return eachPair(value, name, func(part, summary *yaml.Node) error {
					p.Fingerprint[part.Value] = summary.Value
					return nil
				})
			}
			i := slices.Index(keys, key.Value)
			if i < 0 {
				return fmt.Errorf("%s:%d: unknown key %.80q: the nearest is %s",
					name, key.Line, key.Value, text.Nearest(key.Value, keys, 1)[0])
			}
			if value.Kind != yaml.ScalarNode {
				return fmt.Errorf("%s:%d: %s needs a single value", name, value.Line, key.Value)
			}
			given[key.Value] = true
			return set(options[i], value, name)
		})
	}
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

// dataName is the name or the folder of a data set.
type dataName string

func (d *dataName) String() string { return string(*d) }
func (d *dataName) Type() string   { return "name" }

func (d *dataName) Set(text string) error {
	if text == "" {
		return errors.New("must be the name of a data set, or its folder")
	}
	*d = dataName(text)
	return nil
}

// budget is a time, 0 for no limit.
type budget time.Duration

func (b *budget) String() string { return time.Duration(*b).String() }
func (b *budget) Type() string   { return "time" }

func (b *budget) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return errors.New("must be a time such as 90m or 2h, or 0s for no limit")
	}
	*b = budget(d)
	return nil
}
