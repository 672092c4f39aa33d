package main

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/mquine/mquine/train/recipe"
)

// formerNames lets users give flags the names that training options had in earlier versions. It
// collects a note about each former name in use.
type formerNames struct {
	current map[string]string // flag by its former name
	notes   []string
}

// newFormerNames makes flags accept the former names of options. It must be called before the
// options are added.
func newFormerNames(flags *pflag.FlagSet, options []recipe.Option) *formerNames {
	f := &formerNames{current: map[string]string{}}
	for _, o := range options {
		if o.FormerKey != "" {
			f.current[o.FormerFlag()] = o.Flag()
		}
	}
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		current, ok := f.current[name]
		if !ok {
			return pflag.NormalizedName(name)
		}
		f.note("--"+name, "--"+current)
		return pflag.NormalizedName(current)
	})
	return f
}

func (f *formerNames) note(former, current string) {
	if text := fmt.Sprintf("%s is now %s", former, current); !slices.Contains(f.notes, text) {
		f.notes = append(f.notes, text)
	}
}

// value returns the value of an option's flag. The value also accepts the words of earlier
// versions.
func (f *formerNames) value(o recipe.Option) pflag.Value {
	if o.FormerWords == nil {
		return o.Value
	}
	return &formerWords{o.Value, o, f}
}

// formerWords is a flag's value that also accepts the words of earlier versions.
type formerWords struct {
	pflag.Value
	option recipe.Option
	names  *formerNames
}

func (v *formerWords) Set(text string) error {
	current := v.option.Current(text)
	if current != text {
		v.names.note("--"+v.option.Flag()+" "+text, "--"+v.option.Flag()+" "+current)
	}
	return v.Value.Set(current)
}
