package search

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/internal/setting"
	"github.com/mquine/mquine/train/internal/stream"
	"github.com/mquine/mquine/train/recipe"
)

// Space is a configuration with some options left open, for a Search to choose.
type Space struct {
	fixed recipe.Recipe
	open  []dimension // in the order of the options
}

// dimension is an open option: one of some values, or a number of a range.
type dimension struct {
	key     string
	choices []string // nil for a range
	min     float64
	max     float64
	log     bool
	whole   bool
}

// The keys of an open option, and the scales of a range.
const (
	choiceKey = "choice"
	minKey    = "min"
	maxKey    = "max"
	scaleKey  = "scale"

	linearScale = "linear"
	logScale    = "log"
)

// settled are the options that a space cannot leave open, since trials are compared by them, or which this
// machine must have.
var settled = []string{"epochs", "valid_every", "stop_metric", "products"}

// useTrial is the use of random numbers for trials, apart from those of a training.
const useTrial uint64 = 1 << 32

// ReadSpace reads a space from a YAML file: a mapping of options to a value, to {choice: [a, b]} or
// to {min: a, max: b, scale: log}. What it leaves out is fixed as in base. name is that of the file, for messages.
func ReadSpace(r io.Reader, name string, base recipe.Recipe) (*Space, error) {
	s := &Space{fixed: base}
	root, err := setting.ReadMapping(r, name)
	if err != nil {
		return nil, err
	}
	err = setting.EachPair(root, name, func(key, value *yaml.Node) error { return s.read(key, value, name) })
	if err != nil {
		return nil, err
	}
	if len(s.open) == 0 {
		return nil, fmt.Errorf("%s: every option has a single value, so there is nothing to search: leave one open, "+
			"as in \"dropout: {min: 0, max: 0.5}\"", name)
	}
	place := map[string]int{}
	for i, o := range s.fixed.Options() {
		place[o.Key] = i
	}
	slices.SortFunc(s.open, func(a, b dimension) int { return cmp.Compare(place[a.key], place[b.key]) })
	return s, nil
}

// Model is the model of the trials, or that of the base if the space leaves it open.
func (s *Space) Model() string { return s.fixed.Model }

func (s *Space) read(key, value *yaml.Node, name string) error {
	o, err := setting.Find(s.fixed.Options(), key, name)
	if err != nil {
		return err
	}
	if value.Kind == yaml.ScalarNode {
		return o.Read(value, name)
	}
	if value.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: %s needs a value, {choice: [a, b]} or {min: a, max: b, scale: log}",
			name, value.Line, o.Key)
	}
	if slices.Contains(settled, o.Key) {
		return fmt.Errorf("%s:%d: %s needs a single value: trials must agree in it", name, value.Line, o.Key)
	}
	d := dimension{key: o.Key}
	given := map[string]bool{}
	err = setting.EachPair(value, name, func(key, value *yaml.Node) error {
		given[key.Value] = true
		return d.read(s.fixed, key, value, name)
	})
	if err != nil {
		return err
	}
	problem := ""
	switch {
	case given[choiceKey] && len(given) > 1:
		problem = "choice stands alone, without min, max and scale"
	case !given[choiceKey] && !(given[minKey] && given[maxKey]):
		problem = "needs a choice, or min and max"
	case !given[choiceKey] && d.min >= d.max:
		problem = fmt.Sprintf("min %v must be less than max %v", d.min, d.max)
	case d.log && d.min <= 0:
		problem = fmt.Sprintf("a log scale needs a min above 0, and it is %v", d.min)
	default:
		s.open = append(s.open, d)
		return nil
	}
	return fmt.Errorf("%s:%d: %s: %s", name, value.Line, d.key, problem)
}

// read reads a key of an open option.
func (d *dimension) read(base recipe.Recipe, key, value *yaml.Node, name string) error {
	o := base.Option(d.key) // of a copy
	switch keys := []string{choiceKey, minKey, maxKey, scaleKey}; key.Value {
	case choiceKey:
		return d.readChoices(o, value, name)
	case minKey:
		return d.readEnd(&d.min, o, key, value, name)
	case maxKey:
		return d.readEnd(&d.max, o, key, value, name)
	case scaleKey:
		if value.Value != linearScale && value.Value != logScale {
			return d.bad(value, name, "scale %.80q: choose from %s and %s", value.Value, linearScale, logScale)
		}
		d.log = value.Value == logScale
		return nil
	default:
		return d.bad(key, name, "unknown key %.80q: the nearest is %s", key.Value, text.Nearest(key.Value, keys, 1)[0])
	}
}

// bad is an error about a part of an open option.
func (d *dimension) bad(at *yaml.Node, name, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s: %s", name, at.Line, d.key, fmt.Sprintf(format, args...))
}

func (d *dimension) readChoices(o recipe.Option, list *yaml.Node, name string) error {
	if list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		return d.bad(list, name, "choice needs a list of values, as in {choice: [a, b]}")
	}
	for _, v := range list.Content {
		if v.Kind != yaml.ScalarNode {
			return d.bad(v, name, "a choice is a single value")
		}
		if err := o.Read(v, name); err != nil {
			return err
		}
		text := o.Value.String()
		if slices.Contains(d.choices, text) {
			return d.bad(v, name, "choice %s is given twice", text)
		}
		d.choices = append(d.choices, text)
	}
	return nil
}

// readEnd reads an end of a range.
func (d *dimension) readEnd(end *float64, o recipe.Option, key, value *yaml.Node, name string) error {
	if value.Kind != yaml.ScalarNode {
		return d.bad(value, name, "%s needs a single value", key.Value)
	}
	if err := o.Read(value, name); err != nil {
		return err
	}
	number, ok := o.Value.(setting.Number)
	if !ok {
		return d.bad(key, name, "it has no range: give a list of values, as in {choice: [a, b]}")
	}
	*end, d.whole = number.Number()
	return nil
}

// CheckBackend is that of the trials' configurations.
func (s *Space) CheckBackend(b *kernel.Backend) error { return s.fixed.CheckBackend(b) }

// YAML writes the space as ReadSpace reads it, with all options.
func (s *Space) YAML() []byte {
	return setting.YAML(s.fixed.Options(), func(o recipe.Option) string {
		i := slices.IndexFunc(s.open, func(d dimension) bool { return d.key == o.Key })
		if i < 0 {
			return o.Value.String()
		}
		return s.open[i].String()
	})
}

func (d dimension) String() string {
	switch {
	case d.choices != nil:
		return fmt.Sprintf("{%s: [%s]}", choiceKey, strings.Join(d.choices, ", "))
	case d.log:
		return fmt.Sprintf("{%s: %s, %s: %s, %s: %s}", minKey, decimal(d.min), maxKey, decimal(d.max), scaleKey, logScale)
	}
	return fmt.Sprintf("{%s: %s, %s: %s}", minKey, decimal(d.min), maxKey, decimal(d.max))
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// draw returns a value: each choice and each whole number of a linear range is as likely, and numbers have
// three digits.
func (d dimension) draw(rng *rand.Rand) string {
	if d.choices != nil {
		return d.choices[rng.IntN(len(d.choices))]
	}
	low, high := d.min, d.max
	if d.whole {
		high++
	}
	u := rng.Float64()
	x := low + float64(u*(high-low))
	if d.log {
		x = low * math.Pow(high/low, u)
	}
	if d.whole {
		return strconv.Itoa(int(max(d.min, min(math.Floor(x), d.max))))
	}
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64)
	return decimal(max(d.min, min(x, d.max)))
}

// draw returns a configuration for a trial. The same seed, trial and try give the same one.
func (s *Space) draw(seed uint64, trial, try int) recipe.Recipe {
	c := s.fixed
	pcg := rand.NewPCG(0, 0)
	rng := rand.New(pcg)
	for i, d := range s.open {
		stream.Seed(pcg, seed, useTrial, trial, try, i)
		o := c.Option(d.key)
		if err := o.Value.Set(d.draw(rng)); err != nil {
			panic(err) // the ends and the choices are values of the option
		}
	}
	return c
}

// Open returns the keys of the options that are left open, and Values their values in c.
func (s *Space) Open() []string {
	keys := make([]string, len(s.open))
	for i, d := range s.open {
		keys[i] = d.key
	}
	return keys
}

func (s *Space) Values(c recipe.Recipe) []string {
	values := make([]string, len(s.open))
	for i, d := range s.open {
		o := c.Option(d.key)
		values[i] = o.Value.String()
	}
	return values
}

// CheckMemory is train.CheckMemory of the largest recipe of the space.
func (s *Space) CheckMemory(g *kg.Graph, m train.Machine) error {
	// Those that do not fit together are never drawn.
	recipes := slices.DeleteFunc(s.corners(), func(c recipe.Recipe) bool { return c.Check() != nil })
	if err := train.CheckMemory(g, m, recipes...); err != nil {
		return fmt.Errorf("the space has configurations that do not fit: %w", err)
	}
	return nil
}

// memoryKeys are the options on which the memory depends: it grows with each number of them.
var memoryKeys = []string{
	"model", "dim", "batch", "negatives", "negative_count", "distribution", "optimiser", "clip", "average",
}

// corners lists configurations of the space with one among them that needs the most memory.
func (s *Space) corners() []recipe.Recipe {
	corners := []recipe.Recipe{s.fixed}
	for _, d := range s.open {
		if !slices.Contains(memoryKeys, d.key) {
			continue
		}
		var next []recipe.Recipe
		for _, c := range corners {
			for _, text := range d.extremes() {
				o := c.Option(d.key)
				if err := o.Value.Set(text); err != nil {
					panic(err) // the ends and the choices are values of the option
				}
				next = append(next, c)
			}
		}
		corners = next
	}
	return corners
}

// extremes returns the largest number, or all words.
func (d dimension) extremes() []string {
	if d.choices == nil {
		return []string{strconv.FormatFloat(d.max, 'f', -1, 64)}
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
	}
	return []string{largest}
}
