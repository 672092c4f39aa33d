package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mquine/mquine/train/recipe"
)

// formerNames lets users call flags by their names in earlier versions. It collects a note about
// each former name in use.
type formerNames struct {
	current map[string]string // current name of a flag by its former name
	notes   []string
}

// acceptFormer makes a command accept the former names of its flags. current maps them to the
// current names. The command prints a note about each former name in use before it does its work.
func acceptFormer(cmd *cobra.Command, current map[string]string) *formerNames {
	f := &formerNames{current: current}
	before := cmd.Flags().GetNormalizeFunc() // an earlier call for this command may have set it
	cmd.Flags().SetNormalizeFunc(func(flags *pflag.FlagSet, name string) pflag.NormalizedName {
		if current, ok := f.current[name]; ok {
			f.note("--"+name, "--"+current)
			name = current
		}
		return before(flags, name)
	})
	work := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		writeNotes(cmd.ErrOrStderr(), f.notes)
		return work(cmd, args)
	}
	return f
}

// acceptFormerOptions makes a command accept the former names of training options.
func acceptFormerOptions(cmd *cobra.Command, options []recipe.Option) *formerNames {
	current := map[string]string{}
	for _, o := range options {
		if o.FormerKey != "" {
			current[o.FormerFlag()] = o.Flag()
		}
	}
	return acceptFormer(cmd, current)
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
