package train

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The kinds of option.

// name is one of some words.
type name struct {
	value *string
	from  []string
}

func choice(value *string, from ...string) *name { return &name{value, from} }

func (n *name) String() string { return *n.value }
func (n *name) Type() string   { return "name" }

// Choices returns the words.
func (n *name) Choices() []string { return n.from }

func (n *name) Set(text string) error {
	if !slices.Contains(n.from, text) {
		last := len(n.from) - 1
		return fmt.Errorf("choose from %s and %s", strings.Join(n.from[:last], ", "), n.from[last])
	}
	*n.value = text
	return nil
}

// integer is a whole number from least to most.
type integer struct {
	value       *int
	least, most int
}

func whole(value *int, least, most int) *integer { return &integer{value, least, most} }

func (i *integer) String() string { return strconv.Itoa(*i.value) }
func (i *integer) Type() string   { return "number" }

func (i *integer) Set(text string) error {
	v, err := strconv.Atoi(text)
	if err != nil || v < i.least || v > i.most {
		return fmt.Errorf("must be a whole number from %d to %d", i.least, i.most)
	}
	*i.value = v
	return nil
}

// real is a number from least to most.
type real struct {
	value       *float64
	least, most float64
}

func number(value *float64, least, most float64) *real { return &real{value, least, most} }

func (r *real) String() string { return strconv.FormatFloat(*r.value, 'g', -1, 64) }
func (r *real) Type() string   { return "number" }

func (r *real) Set(text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= r.least && v <= r.most) {
		if math.IsInf(r.most, 1) {
			return fmt.Errorf("must be a number of at least %v", r.least)
		}
		return fmt.Errorf("must be a number from %v to %v", r.least, r.most)
	}
	*r.value = v
	return nil
}

// truth is true or false.
type truth bool

func (t *truth) String() string { return strconv.FormatBool(bool(*t)) }
func (t *truth) Type() string   { return "bool" }

func (t *truth) Set(text string) error {
	v, err := strconv.ParseBool(text)
	if err != nil {
		return errors.New("must be true or false")
	}
	*t = truth(v)
	return nil
}

// IsBoolFlag lets a flag of the command line stand without a value.
func (t *truth) IsBoolFlag() bool { return true }

// seed is any number of 64 bits.
type seed uint64

func (s *seed) String() string { return strconv.FormatUint(uint64(*s), 10) }
func (s *seed) Type() string   { return "number" }

func (s *seed) Set(text string) error {
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return errors.New("must be a whole number from 0 to 2⁶⁴ − 1")
	}
	*s = seed(v)
	return nil
}

// word is the name of a metric.
type word string

func (w *word) String() string { return string(*w) }
func (w *word) Type() string   { return "metric" }

func (w *word) Set(text string) error {
	if _, err := parseMetric(text); err != nil {
		return err
	}
	*w = word(text)
	return nil
}
