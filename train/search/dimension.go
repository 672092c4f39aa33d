package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/train/internal/setting"
	"github.com/mquine/mquine/train/recipe"
)

// dimension is an open option. Its value is one of several choices or a number in a range.
type dimension struct {
	key     string
	choices []string // nil for a range
	min     float64
	max     float64
	log     bool // the range has a logarithmic scale
	whole   bool // the range contains only whole numbers
}

// The keys in the mapping of an open option, and the scales of a range.
const (
	choiceKey = "choice"
	minKey    = "min"
	maxKey    = "max"
	scaleKey  = "scale"

	linearScale = "linear"
	logScale    = "log"
)

// dimensionReader reads a dimension from a mapping in a YAML file.
type dimensionReader struct {
	dimension
	option recipe.Option // checks values; belongs to a copy of the recipe
	file   string
}

// readDimension reads the choices or the range of the option with the given key. It checks the
// values in a copy of base.
func readDimension(base recipe.Recipe, key string, mapping *yaml.Node, file string) (dimension, error) {
	r := &dimensionReader{dimension: dimension{key: key}, option: base.Option(key), file: file}
	given := map[string]bool{}
	err := setting.EachPair(mapping, file, func(key, value *yaml.Node) error {
		given[key.Value] = true
		switch key.Value {
		case choiceKey:
			return r.readChoices(value)
		case minKey:
			return r.readEnd(&r.min, key, value)
		case maxKey:
			return r.readEnd(&r.max, key, value)
		case scaleKey:
			return r.readScale(value)
		}
		nearest := text.Nearest(key.Value, []string{choiceKey, minKey, maxKey, scaleKey}, 1)[0]
		return r.errorf(key, "unknown key %.80q: the nearest is %s", key.Value, nearest)
	})
	if err != nil {
		return dimension{}, err
	}
	switch {
	case given[choiceKey] && len(given) > 1:
		err = r.errorf(mapping, "choice cannot be combined with min, max and scale")
	case !given[choiceKey] && !(given[minKey] && given[maxKey]):
		err = r.errorf(mapping, "needs a choice, or min and max")
	case !given[choiceKey] && r.min >= r.max:
		err = r.errorf(mapping, "min %s must be less than max %s", r.text(r.min), r.text(r.max))
	case r.log && r.min <= 0:
		err = r.errorf(mapping, "a log scale needs a min above 0, but min is %v", r.min)
	}
	return r.dimension, err
}

// errorf returns an error about a node of the file.
func (r *dimensionReader) errorf(at *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s: %s", r.file, at.Line, r.key, fmt.Sprintf(format, args...))
}

func (r *dimensionReader) readChoices(list *yaml.Node) error {
	if list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		return r.errorf(list, "choice needs a list of values, as in {choice: [a, b]}")
	}
	for _, v := range list.Content {
		if v.Kind != yaml.ScalarNode {
			return r.errorf(v, "every choice must be a single value")
		}
		if err := r.option.Read(v, r.file); err != nil {
			return err
		}
		text := r.option.Value.String()
		if slices.Contains(r.choices, text) {
			return r.errorf(v, "choice %s is given twice", text)
		}
		r.choices = append(r.choices, text)
	}
	return nil
}

// readEnd reads an end of a range.
func (r *dimensionReader) readEnd(end *float64, key, value *yaml.Node) error {
	if value.Kind != yaml.ScalarNode {
		return r.errorf(value, "%s needs a single value", key.Value)
	}
	if err := r.option.Read(value, r.file); err != nil {
		return err
	}
	number, ok := r.option.Value.(setting.Number)
	if !ok {
		return r.errorf(key, "this option has no range: give a list of values, as in {choice: [a, b]}")
	}
	*end, r.whole = number.Number()
	if math.IsInf(*end, 0) {
		return r.errorf(value, "%s must be finite", key.Value)
	}
	return nil
}

func (r *dimensionReader) readScale(value *yaml.Node) error {
	if value.Value != linearScale && value.Value != logScale {
		return r.errorf(value, "scale %.80q: choose from %s and %s", value.Value, linearScale, logScale)
	}
	r.log = value.Value == logScale
	return nil
}

// String returns the dimension as YAML.
func (d *dimension) String() string {
	switch {
	case d.choices != nil:
		quoted := make([]string, len(d.choices))
		for i, choice := range d.choices {
			quoted[i] = choice
			if strings.Contains(choice, ",") { // a list of hyper-parameters
				quoted[i] = strconv.Quote(choice)
			}
		}
		return fmt.Sprintf("{%s: [%s]}", choiceKey, strings.Join(quoted, ", "))
	case d.log:
		return fmt.Sprintf("{%s: %s, %s: %s, %s: %s}",
			minKey, d.text(d.min), maxKey, d.text(d.max), scaleKey, logScale)
	}
	return fmt.Sprintf("{%s: %s, %s: %s}", minKey, d.text(d.min), maxKey, d.text(d.max))
}

// text returns a number of the range in a form that the option can read: options with whole numbers
// cannot read exponents.
func (d *dimension) text(x float64) string {
	if d.whole {
		return strconv.Itoa(int(x))
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// draw returns a random value. All choices, and all whole numbers in a linear range, have the same
// probability. Numbers that need not be whole are rounded to three significant digits.
func (d *dimension) draw(rng *rand.Rand) string {
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
		x = math.Floor(x)
	} else {
		x = rounded(x)
	}
	return d.text(d.clamp(x))
}

// rounded rounds a number to three significant digits.
func rounded(x float64) float64 {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64)
	return x
}

func (d *dimension) clamp(x float64) float64 { return max(d.min, min(x, d.max)) }

// check returns an error if all draws from a range are rounded to the same value.
func (d *dimension) check() error {
	if d.choices != nil || d.whole || d.clamp(rounded(d.min)) != d.clamp(rounded(d.max)) {
		return nil
	}
	return fmt.Errorf("%s: a search rounds draws to three significant digits, so it would only try %s between min %s "+
		"and max %s: widen the range, or list values, as in {choice: [%[3]s, %[4]s]}",
		d.key, d.text(d.clamp(rounded(d.min))), d.text(d.min), d.text(d.max))
}

// set sets the option of c to a value of the dimension.
func (d *dimension) set(c *recipe.Recipe, value string) {
	if err := c.Option(d.key).Set(value); err != nil {
		panic(err) // ends and choices were read as values of the option
	}
}
