package setting

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mquine/mquine/internal/text"
)

// Choice returns a Value that accepts the given words, in any case. Its method Choices returns the
// words.
func Choice[T ~string](variable *T, from ...T) Value { return &choice[T]{variable, from} }

type choice[T ~string] struct {
	variable *T
	from     []T
}

func (c *choice[T]) String() string { return string(*c.variable) }
func (c *choice[T]) Type() string   { return "NAME" }
func (c *choice[T]) Range() string  { return strings.Join(c.Choices(), ", ") }

func (c *choice[T]) Choices() []string {
	words := make([]string, len(c.from))
	for i, word := range c.from {
		words[i] = string(word)
	}
	return words
}

func (c *choice[T]) Set(word string) error {
	known := T(text.Fold(word, c.Choices()))
	if !slices.Contains(c.from, known) {
		return errors.New(text.Choose(word, c.Choices()))
	}
	*c.variable = known
	return nil
}

// Whole returns a Number that accepts the whole numbers from least to most.
func Whole(variable *int, least, most int) Number { return &whole{variable, least, most} }

type whole struct {
	variable    *int
	least, most int
}

func (w *whole) String() string          { return strconv.Itoa(*w.variable) }
func (w *whole) Type() string            { return "N" }
func (w *whole) Range() string           { return fmt.Sprintf("%d to %d", w.least, w.most) }
func (w *whole) Number() (float64, bool) { return float64(*w.variable), true }

func (w *whole) Set(text string) error {
	v, err := strconv.Atoi(text)
	if err != nil || v < w.least || v > w.most {
		return fmt.Errorf("must be a whole number from %d to %d", w.least, w.most)
	}
	*w.variable = v
	return nil
}

// Real returns a Number that accepts numbers from least to most, which may be infinite.
func Real(variable *float64, least, most float64) Number { return &real{variable, least, most} }

type real struct {
	variable    *float64
	least, most float64
}

func (r *real) String() string          { return strconv.FormatFloat(*r.variable, 'g', -1, 64) }
func (r *real) Type() string            { return "X" }
func (r *real) Number() (float64, bool) { return *r.variable, false }

func (r *real) Range() string {
	if math.IsInf(r.most, 1) {
		return fmt.Sprintf("at least %v", r.least)
	}
	return fmt.Sprintf("%v to %v", r.least, r.most)
}

func (r *real) Set(text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= r.least && v <= r.most) {
		if math.IsInf(r.most, 1) {
			return fmt.Errorf("must be a number of at least %v", r.least)
		}
		return fmt.Errorf("must be a number from %v to %v", r.least, r.most)
	}
	*r.variable = v
	return nil
}

// Bool returns a Value that accepts true and false, as strconv.ParseBool does. Its flag needs no
// value.
func Bool(variable *bool) Value { return (*boolean)(variable) }

type boolean bool

func (b *boolean) String() string   { return strconv.FormatBool(bool(*b)) }
func (b *boolean) Type() string     { return "bool" }
func (b *boolean) Range() string    { return "true, false" }
func (b *boolean) IsBoolFlag() bool { return true }

func (b *boolean) Set(text string) error {
	v, err := strconv.ParseBool(text)
	if err != nil {
		return errors.New("must be true or false")
	}
	*b = boolean(v)
	return nil
}

// Seed returns a Value that accepts any unsigned 64-bit integer.
func Seed(variable *uint64) Value { return (*seed)(variable) }

type seed uint64

func (s *seed) String() string { return strconv.FormatUint(uint64(*s), 10) }
func (s *seed) Type() string   { return "N" }
func (s *seed) Range() string  { return "0 to 2⁶⁴ − 1" }

func (s *seed) Set(text string) error {
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return errors.New("must be a whole number from 0 to 2⁶⁴ − 1")
	}
	*s = seed(v)
	return nil
}
