package search

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/internal/setting"
	"github.com/mquine/mquine/train/internal/stream"
	"github.com/mquine/mquine/train/recipe"
)

// Space is a recipe with some open options, whose values a search chooses.
type Space struct {
	fixed   recipe.Recipe
	open    []dimension // the open options, in the order of the options
	triples int         // training triples of the search's data set; 0 before a search has one
}

// fixedOptions are the options that a space cannot leave open. The first three must be the same for
// all trials that a search compares, and products depends on the machine.
var fixedOptions = []string{"epochs", "valid_every", "valid_metric", "products"}

// useTrial is the stream of random numbers for trials. Package train uses smaller numbers.
const useTrial uint64 = 1 << 32

// ReadSpace reads a space from a YAML file that maps options to their values. The value of an open
// option is {choice: [a, b]} or {min: a, max: b, scale: log}. Options that are not in the file keep
// their values from base. In errors, name is the name of the file.
func ReadSpace(r io.Reader, name string, base recipe.Recipe) (*Space, error) {
	s := &Space{fixed: base}
	root, err := setting.ReadMapping(r, name, s.fixed.Options()...)
	if err != nil {
		return nil, err
	}
	err = setting.EachPair(root, name, func(key, value *yaml.Node) error { return s.read(key, value, name) })
	if err != nil {
		return nil, err
	}
	if len(s.open) == 0 {
		return nil, fmt.Errorf("%s: every option has a single value, so there is nothing to search: "+
			"leave an option open, "+
			"as in \"dropout: {min: 0, max: 0.5}\"", name)
	}
	position := map[string]int{}
	for i, o := range s.fixed.Options() {
		position[o.Key] = i
	}
	slices.SortFunc(s.open, func(a, b dimension) int { return cmp.Compare(position[a.key], position[b.key]) })
	return s, nil
}

// read sets an option to the value in the file, or adds an open option.
func (s *Space) read(key, value *yaml.Node, name string) error {
	o, err := setting.Find(s.fixed.Options(), key, name)
	switch {
	case err != nil:
		return err
	case value.Kind == yaml.ScalarNode:
		return o.Read(value, name)
	case value.Kind != yaml.MappingNode:
		return fmt.Errorf("%s:%d: %s needs a value, {choice: [a, b]} or {min: a, max: b, scale: log}",
			name, value.Line, o.Key)
	case slices.Contains(fixedOptions, o.Key):
		return fmt.Errorf("%s:%d: %s needs a single value: it must be the same for all trials", name, value.Line, o.Key)
	}
	d, err := readDimension(s.fixed, o.Key, value, name)
	if err != nil {
		return err
	}
	s.open = append(s.open, d)
	return nil
}

// Model returns the model of the trials, or the model of the base if the space leaves it open.
func (s *Space) Model() string { return s.fixed.Model }

// Fit returns the options of base that suit all negatives and losses of the trials (recipe.Recipe.Fit).
func (s *Space) Fit(base recipe.Recipe) recipe.Recipe {
	base = base.Fit(s.fixed)
	for _, d := range s.open {
		if d.key == "negatives" || d.key == "loss" {
			for _, text := range d.choices {
				c := s.fixed
				d.set(&c, text)
				base = base.Fit(c)
			}
		}
	}
	return base
}

// CheckBackend is like Recipe.CheckBackend but checks the recipes of all trials.
func (s *Space) CheckBackend(b *kernel.Backend) error {
	for c := range s.corners([]string{"negatives"}) { // some have no products
		if err := c.CheckBackend(b); err != nil {
			return err
		}
	}
	return nil
}

// YAML returns the space, with all options, as a file that ReadSpace can read.
func (s *Space) YAML() []byte {
	return setting.YAML(s.fixed.Options(), func(o recipe.Option) string {
		i := slices.IndexFunc(s.open, func(d dimension) bool { return d.key == o.Key })
		if i < 0 {
			return o.Value.String()
		}
		return s.open[i].String()
	})
}

// draw returns the recipe of a trial. It depends only on the seed, the trial and the try.
func (s *Space) draw(seed uint64, trial, try int) recipe.Recipe {
	c := s.fixed
	pcg := rand.NewPCG(0, 0)
	rng := rand.New(pcg)
	for i, d := range s.open {
		stream.Seed(pcg, seed, useTrial, trial, try, i)
		d.set(&c, d.draw(rng))
	}
	return c
}

// check returns an error if a recipe is invalid or does not suit the number of training triples.
func (s *Space) check(c *recipe.Recipe) error { return cmp.Or(c.Check(), c.CheckPairs(s.triples)) }

// invalid returns nil if one of the first recipes that a search draws is valid. Otherwise it returns the
// error of the last of them.
func (s *Space) invalid(seed uint64) (reason error) {
	for try := range Draws {
		c := s.draw(seed, 1, try)
		if reason = s.check(&c); reason == nil {
			return nil
		}
	}
	return reason
}

// checkRanges returns an error if a range has a single value after rounding.
func (s *Space) checkRanges() error {
	for _, d := range s.open {
		if err := d.check(); err != nil {
			return err
		}
	}
	return nil
}

// checkChoices returns an error if a choice occurs only in invalid recipes. A search never tries such a
// choice.
func (s *Space) checkChoices(seed uint64) error {
	for i, d := range s.open {
		for _, choice := range d.choices {
			with := *s
			with.open = slices.Clone(s.open)
			with.open[i].choices = []string{choice}
			if reason := with.invalid(seed); reason != nil {
				return fmt.Errorf("the search would never try %s: %s, because none of %d recipes drawn with it is "+
					"valid (%w): remove it, or change the other options of the space", d.key, choice, Draws, reason)
			}
		}
	}
	return nil
}

// Open returns the keys of the open options.
func (s *Space) Open() []string {
	keys := make([]string, len(s.open))
	for i, d := range s.open {
		keys[i] = d.key
	}
	return keys
}

// Values returns the values that c has for the open options, in the order of Open.
func (s *Space) Values(c recipe.Recipe) []string {
	values := make([]string, len(s.open))
	for i, d := range s.open {
		values[i] = c.Option(d.key).Value.String()
	}
	return values
}

// usageKeys are the options that can make recipe.Recipe.Unused list other options.
var usageKeys = []string{
	"model", "negatives", "distribution", "loss", "z_samples", "regulariser", "lambda_reg", "optimiser",
}

// Unused returns the keys of the open options that have no effect on any trial.
func (s *Space) Unused() []string {
	keys := s.Open()
	open := map[string]bool{}
	for _, key := range keys {
		open[key] = true
	}
	for c := range s.corners(usageKeys) {
		// The corners lack the smallest warmup and the smallest patience, with which decay and patience act first.
		if open["warmup"] {
			c.Warmup = 0
		}
		c.Patience = 1
		unused := c.Unused()
		keys = slices.DeleteFunc(keys, func(key string) bool { return unused[key] == "" })
	}
	return keys
}

// CheckMemory is like train.CheckMemory but checks the recipe in the space that needs the most
// memory, as far as memoryKeys determine it. If the extreme values of the options rule each other out, it
// checks only those combinations of them that are valid.
func (s *Space) CheckMemory(ctx context.Context, g *kg.Graph, m train.Machine) error {
	of := *s
	of.triples = len(g.Splits[kg.Train])
	valid := func(yield func(recipe.Recipe) bool) { // a search never draws invalid recipes
		for c := range s.corners(memoryKeys) {
			if (ctx.Err() != nil || of.check(&c) == nil) && !yield(c) {
				return
			}
		}
	}
	err := train.CheckLargest(ctx, g, m, valid)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("the space contains recipes that do not fit into memory: %w", err)
	}
	return err
}

// memoryKeys are the options whose open values CheckMemory compares. The memory of a run grows with
// each numeric one of these options, except that 0 turns some of them off and means no limit for
// others, and that fewer max_answers make more parts of queries, which need little memory.
var memoryKeys = []string{
	"model", "dim", "hyper", "reciprocal", "batch", "negatives", "negative_count", "distribution", "subsampling",
	"relation_weight", "relation_negatives", "block_losses", "max_answers", "regulariser", "dura_pair",
	"relation_dropout", "optimiser", "clip", "ema",
}

// corners yields recipes in the space, one for each combination of the extreme values of the options
// with the given keys. With memoryKeys, and as far as they determine the memory, the recipe that needs the
// most is among them. The combinations may be hundreds of thousands.
func (s *Space) corners(keys []string) iter.Seq[recipe.Recipe] {
	open := slices.DeleteFunc(slices.Clone(s.open), func(d dimension) bool { return !slices.Contains(keys, d.key) })
	return func(yield func(recipe.Recipe) bool) { combine(s.fixed, open, yield) }
}

// combine yields c with each combination of the extreme values of the open options. It returns false if
// yield did.
func combine(c recipe.Recipe, open []dimension, yield func(recipe.Recipe) bool) bool {
	if len(open) == 0 {
		return yield(c)
	}
	for _, text := range open[0].extremes() {
		open[0].set(&c, text)
		if !combine(c, open[1:], yield) {
			return false
		}
	}
	return true
}

// extremes returns the largest value, and 0 if it is a value, if the values are numbers. Otherwise it
// returns all values.
func (d *dimension) extremes() (values []string) {
	if d.choices == nil {
		if d.min == 0 {
			values = append(values, "0")
		}
		return append(values, d.text(d.max))
	}
	largest, most := "", math.Inf(-1)
	for _, text := range d.choices {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return d.choices
		}
		if x > most {
			largest, most = text, x
		}
		if x == 0 {
			values = append(values, text)
		}
	}
	if most != 0 {
		values = append(values, largest)
	}
	return values
}
