package train

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mquine/mquine/kernel"
)

// Space is a configuration with some options left open, for a Search to choose.
type Space struct {
	fixed Config
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
func ReadSpace(r io.Reader, name string, base Config) (*Space, error) {
	s := &Space{fixed: base}
	root, err := readMapping(r, name)
	if err != nil {
		return nil, err
	}
	if root != nil {
		err = eachPair(root, name, func(key, value *yaml.Node) error { return s.read(key, value, name) })
	}
	if err != nil {
		return nil, err
	}
	if len(s.open) == 0 {
		return nil, fmt.Errorf("%s: every option has a single value, so there is nothing to search: leave one open, as in \"dropout: {min: 0, max: 0.5}\"", name)
	}
	keys := s.fixed.keys()
	slices.SortFunc(s.open, func(a, b dimension) int { return slices.Index(keys, a.key) - slices.Index(keys, b.key) })
	return s, nil
}

// Model is the model of the trials, or that of the base if the space leaves it open.
func (s *Space) Model() string { return s.fixed.Model }

func (s *Space) read(key, value *yaml.Node, name string) error {
	o, err := s.fixed.optionOf(key, name)
	if err != nil {
		return err
	}
	if value.Kind == yaml.ScalarNode {
		return set(o, value, name)
	}
	if value.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: %s needs a value, {choice: [a, b]} or {min: a, max: b, scale: log}", name, value.Line, o.Key)
	}
	if slices.Contains(settled, o.Key) {
		return fmt.Errorf("%s:%d: %s needs a single value: trials must agree in it", name, value.Line, o.Key)
	}
	d := dimension{key: o.Key}
	given := map[string]bool{}
	err = eachPair(value, name, func(key, value *yaml.Node) error {
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
func (d *dimension) read(c Config, key, value *yaml.Node, name string) error {
	o, _ := c.option(d.key) // of a copy
	bad := func(n *yaml.Node, format string, args ...any) error {
		return fmt.Errorf("%s:%d: %s: %s", name, n.Line, d.key, fmt.Sprintf(format, args...))
	}
	switch keys := []string{choiceKey, minKey, maxKey, scaleKey}; key.Value {
	case choiceKey:
		if value.Kind != yaml.SequenceNode || len(value.Content) == 0 {
			return bad(value, "choice needs a list of values, as in {choice: [a, b]}")
		}
		for _, v := range value.Content {
			if v.Kind != yaml.ScalarNode {
				return bad(v, "a choice is a single value")
			}
			if err := set(o, v, name); err != nil {
				return err
			}
			text := o.Value.String()
			if slices.Contains(d.choices, text) {
				return bad(v, "choice %s is given twice", text)
			}
			d.choices = append(d.choices, text)
		}
	case minKey, maxKey:
		end := &d.min
		if key.Value == maxKey {
			end = &d.max
		}
		if value.Kind != yaml.ScalarNode {
			return bad(value, "%s needs a single value", key.Value)
		}
		if err := set(o, value, name); err != nil {
			return err
		}
		switch v := o.Value.(type) {
		case *integer:
			*end, d.whole = float64(*v.value), true
		case *real:
			*end = *v.value
		default:
			return bad(key, "it has no range: give a list of values, as in {choice: [a, b]}")
		}
	case scaleKey:
		if value.Value != linearScale && value.Value != logScale {
			return bad(value, "scale %.80q: choose from %s and %s", value.Value, linearScale, logScale)
		}
		d.log = value.Value == logScale
	default:
		return bad(key, "unknown key %.80q: the nearest is %s", key.Value, nearest(key.Value, keys))
	}
	return nil
}

// CheckBackend is that of the trials' configurations.
func (s *Space) CheckBackend(b *kernel.Backend) error { return s.fixed.CheckBackend(b) }

// YAML writes the space as ReadSpace reads it, with all options.
func (s *Space) YAML() []byte {
	return s.fixed.yaml(func(o Option) string {
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
func (s *Space) draw(seed uint64, trial, try int) Config {
	c := s.fixed
	pcg := rand.NewPCG(0, 0)
	rng := rand.New(pcg)
	for i, d := range s.open {
		stream(pcg, seed, useTrial, trial, try, i)
		o, _ := c.option(d.key)
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

func (s *Space) Values(c Config) []string {
	values := make([]string, len(s.open))
	for i, d := range s.open {
		o, _ := c.option(d.key)
		values[i] = o.Value.String()
	}
	return values
}
