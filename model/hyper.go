package model

import (
	"fmt"
	"math"
	"strings"
)

// HyperParameter declares a number that belongs to a model but is not trained, such as a margin. A
// switch is 0 or 1.
type HyperParameter struct {
	// Key is the name in a checkpoint's metadata. The name of the command-line flag has dashes in
	// place of underscores.
	Key string
	// Help describes the hyper-parameter in one line.
	Help string
	// Default is the value if neither a configuration nor a checkpoint contains one. Checkpoints
	// omit a value that equals Default, so Default must never change. A Default out of bounds means
	// that the value must be given.
	Default float64
	// Initial returns the value for a new model whose configuration has none. The configuration
	// already has the hyper-parameters declared before this one. Nil means Default.
	Initial func(Config) float64
	// Missing is a note about the scores of a checkpoint without this hyper-parameter, or empty.
	Missing string
	// Least and Most bound the value.
	Least, Most float64
	// Whole reports whether the value must be an integer.
	Whole bool
	// Fits returns "" if a value within these bounds suits a configuration. Otherwise it says what
	// the value must be, such as "a divisor of the dimension 8". Nil means that every value suits.
	Fits func(c Config, value float64) (must string)
}

// Of returns the value of the hyper-parameter in a configuration.
func (h *HyperParameter) Of(c Config) float64 {
	if v, given := c.Hyper[h.Key]; given {
		return v
	}
	return h.Default
}

// Flag returns the name of the command-line flag, without leading dashes.
func (h *HyperParameter) Flag() string { return strings.ReplaceAll(h.Key, "_", "-") }

// allows reports whether the bounds allow a value.
func (h *HyperParameter) allows(v float64) bool { return v >= h.Least && v <= h.Most }

func (h *HyperParameter) check(c Config) error {
	v := h.Of(c)
	if _, given := c.Hyper[h.Key]; !given && !h.allows(v) {
		return fmt.Errorf("model %s: %s is missing: it must be from %v to %v", c.Model, h.Key, h.Least, h.Most)
	}
	if !h.allows(v) {
		return fmt.Errorf("model %s: %s is %v: it must be from %v to %v", c.Model, h.Key, v, h.Least, h.Most)
	}
	if h.Whole && v != math.Trunc(v) {
		return fmt.Errorf("model %s: %s is %v: it must be a whole number", c.Model, h.Key, v)
	}
	if h.Fits != nil {
		if must := h.Fits(c, v); must != "" {
			return fmt.Errorf("model %s: %s is %v: it must be %s", c.Model, h.Key, v, must)
		}
	}
	return nil
}

// divides is the HyperParameter.Fits of values that must divide the dimension.
func divides(c Config, value float64) (must string) {
	if c.Dim%int(value) == 0 {
		return ""
	}
	return fmt.Sprintf("a divisor of the dimension %d", c.Dim)
}
