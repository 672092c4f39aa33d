package setting

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

type word string

// variables contains one variable of each kind.
type variables struct {
	choice word
	whole  int
	real   float64
	flag   bool
	seed   uint64
}

func (v *variables) settings() []Setting {
	return []Setting{
		{Key: "choice", Help: "a word", Value: Choice(&v.choice, "one", "two", "three"),
			FormerKey: "old_choice", FormerWords: map[string]string{"zwei": "two"}},
		{Key: "whole", Help: "a whole number", Value: Whole(&v.whole, -1, 9)},
		{Key: "real", Help: "a number", Synonyms: []string{"fl", "float_number"}, Value: Real(&v.real, 0, math.Inf(1))},
		{Key: "flag_of_two", Help: "a flag", Value: Bool(&v.flag)},
		{Key: "seed", Help: "a seed", Value: Seed(&v.seed)},
	}
}

func (v *variables) read(file string) error {
	list := v.settings()
	root, err := ReadMapping(strings.NewReader(file), "x.yaml", list...)
	if err != nil {
		return err
	}
	return EachPair(root, "x.yaml", func(key, value *yaml.Node) error {
		s, err := Find(list, key, "x.yaml")
		if err != nil {
			return err
		}
		return s.Read(value, "x.yaml")
	})
}

func TestSettings(t *testing.T) {
	want := variables{"two", -1, 0.1, true, math.MaxUint64}
	file := YAML(want.settings(), func(s Setting) string { return s.Value.String() })
	assert.Equal(t, "# a word\nchoice: two\n# a whole number\nwhole: -1\n# a number\nreal: 0.1\n"+
		"# a flag\nflag_of_two: true\n# a seed\nseed: 18446744073709551615\n", string(file))
	var got variables
	require.NoError(t, got.read(string(file)))
	assert.Equal(t, want, got)
	require.NoError(t, got.read("whole: 9"))
	assert.Equal(t, variables{"two", 9, 0.1, true, math.MaxUint64}, got, "the others stay")
	require.NoError(t, got.read(""))

	list := want.settings()
	assert.Equal(t, "flag-of-two", list[3].Flag())
	for i, whole := range map[int]bool{1: true, 2: false} {
		_, is := list[i].Value.(Number).Number()
		assert.Equal(t, whole, is)
	}
	for _, i := range []int{0, 3, 4} {
		assert.NotImplements(t, (*Number)(nil), list[i].Value)
	}
}

// Settings can be read by their former names. YAML writes the current names, and Original returns
// the former ones.
func TestFormerNames(t *testing.T) {
	var got variables
	require.NoError(t, got.read("old_choice: zwei\nwhole: 3"))
	assert.Equal(t, variables{choice: "two", whole: 3}, got)
	list := got.settings()
	assert.Equal(t, "old-choice", list[0].FormerFlag())
	assert.Empty(t, list[1].FormerFlag())
	for i, want := range [][2]string{{"old_choice", "zwei"}, {"whole", "3"}} {
		key, value := list[i].Original()
		assert.Equal(t, want, [2]string{key, value})
	}
	assert.NotContains(t, string(YAML(list, func(s Setting) string { return s.Value.String() })), "zwei")
	assert.EqualError(t, got.read("old_choice: one\nchoice: two"),
		"x.yaml:2: duplicate key choice, first on line 1")
	assert.EqualError(t, got.read("old_choice: four"), `x.yaml:1: choice "four": choose from one, two and three`)
}

func TestRanges(t *testing.T) {
	want := []string{"one, two, three", "-1 to 9", "at least 0", "true, false", "0 to 2⁶⁴ − 1"}
	for i, s := range new(variables).settings() {
		assert.Equal(t, want[i], s.Value.Range())
	}
}

// A value out of range changes nothing.
func TestSettingErrors(t *testing.T) {
	for file, want := range map[string]string{
		"choice: four":         `x.yaml:1: choice "four": choose from one, two and three`,
		"\nwhole: 10":          `x.yaml:2: whole "10": must be a whole number from -1 to 9`,
		"whole: 1.5":           `x.yaml:1: whole "1.5": must be a whole number from -1 to 9`,
		"real: -0.1":           `x.yaml:1: real "-0.1": must be a number of at least 0`,
		"real: .nan":           `x.yaml:1: real ".nan": must be a number of at least 0`,
		"real: NaN":            `x.yaml:1: real "NaN": must be a number of at least 0`,
		"flag_of_two: maybe":   `x.yaml:1: flag_of_two "maybe": must be true or false`,
		"seed: -1":             `x.yaml:1: seed "-1": must be a whole number from 0 to 2⁶⁴ − 1`,
		"flag: true":           `x.yaml:1: unknown option "flag": correct or remove it`,
		"fl: 1":                `x.yaml:1: unknown option "fl": did you mean real?`,
		"float-number: 1":      `x.yaml:1: unknown option "float-number": did you mean real?`,
		"flag_of_to: true":     `x.yaml:1: unknown option "flag_of_to": the nearest is flag_of_two`,
		"whole: [1]":           "x.yaml:1: whole needs a single value",
		"whole: 1\n\nwhole: 2": "x.yaml:3: duplicate key whole, first on line 1",
		"- whole":              `x.yaml:1: this file must be a list of keys and values, with lines such as "dim: 20"`,
	} {
		before := variables{"one", 1, 1, false, 1}
		got := before
		assert.EqualError(t, got.read(file), want)
		if !strings.Contains(file, "\n\n") {
			assert.Equal(t, before, got)
		}
	}
}

// A caller can recognise the error of an interrupted reader.
func TestInterruptedReader(t *testing.T) {
	_, err := ReadMapping(iotest.ErrReader(context.Canceled), "x.yaml")
	require.ErrorIs(t, err, context.Canceled)
	assert.EqualError(t, err, "cannot read x.yaml: context canceled")
}
