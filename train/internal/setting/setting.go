// Package setting reads and writes settings: named values that can be set with keys in a YAML file
// and with flags on the command line. Reading is strict: unknown keys, repeated keys and values out
// of range are errors that name the file and the line.
package setting

import "strings"

// Setting is a named value.
type Setting struct {
	// Key is the name in a file. Help is one line that describes the setting.
	Key, Help string
	Value     Value

	// FormerKey is the key in earlier versions, or "" if the key never changed.
	FormerKey string
	// Synonyms are names of the setting in other tools, for messages.
	Synonyms []string
	// FormerWords maps words that earlier versions used as values to the current words.
	FormerWords map[string]string
}

// Flag returns the name of the setting on the command line, without the leading dashes.
func (s Setting) Flag() string { return flagOf(s.Key) }

// FormerFlag returns the name of the flag in earlier versions, or "" if the name never changed.
func (s Setting) FormerFlag() string { return flagOf(s.FormerKey) }

func flagOf(key string) string { return strings.ReplaceAll(key, "_", "-") }

// Set sets the value from text, which may be a word from an earlier version.
func (s Setting) Set(text string) error { return s.Value.Set(s.Current(text)) }

// Current returns the current word for a word from an earlier version, and any other text
// unchanged.
func (s Setting) Current(text string) string {
	if word, ok := s.FormerWords[text]; ok {
		return word
	}
	return text
}

// Original returns the original names of the key and the value, for formats that must stay the same
// across versions.
func (s Setting) Original() (key, value string) {
	key, value = s.Key, s.Value.String()
	if s.FormerKey != "" {
		key = s.FormerKey
	}
	for former, current := range s.FormerWords {
		if current == value {
			value = former
		}
	}
	return key, value
}

// Value reads and writes a variable as text. It implements pflag.Value.
type Value interface {
	String() string
	Set(text string) error
	// Type returns the word for this kind of value in help texts.
	Type() string
	// Range describes the strings that Set accepts.
	Range() string
}

// Number is a Value that accepts the numbers in a range.
type Number interface {
	Value
	// Number returns the variable's value, and whether the variable holds whole numbers.
	Number() (x float64, whole bool)
}
