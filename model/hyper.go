package model

import (
	"fmt"
	"strings"
)

// HyperParameter declares a number that a model has beside its parameters, such as a margin. A switch is
// 0 or 1.
type HyperParameter struct {
	// Key names it in a checkpoint's metadata and, with dashes, on the command line.
	Key string
	// Help describes it in one line, with the kind of value in backquotes.
	Help string
	// Default is its value where neither a configuration nor a checkpoint has one. It can never change:
	// checkpoints leave it out.
	Default float64
	// Initial returns the value with which training begins if none is given, from a configuration with
	// the hyper-parameters that are declared before this one; nil stands for Default.
	Initial func(Config) float64
	// Missing is a note on the scores of a checkpoint in which it has its default.
	Missing string
	// Least and Most bound its value.
	Least, Most float64
}

// Of returns the value in a configuration.
func (h *HyperParameter) Of(c Config) float64 {
	if v, given := c.Hyper[h.Key]; given {
		return v
	}
	return h.Default
}

// Flag returns the name of the flag that sets it, without the leading dashes.
func (h *HyperParameter) Flag() string { return strings.ReplaceAll(h.Key, "_", "-") }

func (h *HyperParameter) check(c Config) error {
	if v := h.Of(c); !(v >= h.Least && v <= h.Most) {
		return fmt.Errorf("model %s: %s is %v: it must be from %v to %v", c.Model, h.Key, v, h.Least, h.Most)
	}
	return nil
}
