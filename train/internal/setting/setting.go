// Package setting reads and writes settings: named values, which a YAML file has by their keys and the command line by
// flags. Reading is strict. A key that is unknown or given twice and a value out of its range are errors that name the
// file and the line.
package setting

import "strings"

// Setting is a named value.
type Setting struct {
	// Key names it in a file. Help describes it in a line, with the kind of value in backquotes.
	Key, Help string
	Value     Value
}

// Flag returns the name of the setting on the command line, without the leading dashes.
func (s Setting) Flag() string { return strings.ReplaceAll(s.Key, "_", "-") }

// Value reads and writes a variable as text. Its methods are those of pflag.Value.
type Value interface {
	String() string
	Set(text string) error
	Type() string
}

// Number is a Value that takes the numbers of a range.
type Number interface {
	Value
	// Number returns the variable, and whether it takes whole numbers alone.
	Number() (x float64, whole bool)
}
