package setting

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mquine/mquine/internal/text"
)

// ReadMapping returns the mapping in a YAML file, or nil if the file is empty. It replaces the
// former keys of settings in list with the current keys. In errors here and below, name is the name
// of the file.
func ReadMapping(r io.Reader, name string, list ...Setting) (*yaml.Node, error) {
	file, err := io.ReadAll(r) // the decoder would hide an error of r, such as an interruption
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, text.Cause(err))
	}
	var document, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(file))
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntaxError(name, err)
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, fmt.Errorf("%s:%d: a second YAML document begins here: keep one of the two", name, second.Line)
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(name, err)
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: this file must be a list of keys and values, "+
			"with lines such as \"dim: 20\"", name, root.Line)
	}
	for i := 0; i < len(root.Content); i += 2 {
		key := root.Content[i]
		for _, s := range list {
			if s.FormerKey != "" && s.FormerKey == key.Value {
				key.Value = s.Key
			}
		}
	}
	return root, nil
}

// syntaxError returns the error for a file that is not YAML, with the line if err names it.
func syntaxError(name string, err error) error {
	found := strings.TrimPrefix(err.Error(), "yaml: ")
	if at, rest, ok := strings.Cut(strings.TrimPrefix(found, "line "), ": "); ok && strings.HasPrefix(found, "line ") {
		name, found = name+":"+at, rest
	}
	return fmt.Errorf("%s: this is not YAML: %s; a line is a key and a value, such as \"dim: 20\"", name, found)
}

// EachPair calls f for every pair of a mapping, which may be nil. A repeated key is an error.
func EachPair(mapping *yaml.Node, name string, f func(key, value *yaml.Node) error) error {
	if mapping == nil {
		return nil
	}
	seen := map[string]int{}
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			return fmt.Errorf("%s:%d: a key must be a single word", name, key.Line)
		}
		if value.Kind == yaml.AliasNode {
			return fmt.Errorf("%s:%d: *%.80s is an alias: write the value itself", name, value.Line, value.Value)
		}
		if line, ok := seen[key.Value]; ok {
			return fmt.Errorf("%s:%d: duplicate key %.80s, first on line %d", name, key.Line, key.Value, line)
		}
		seen[key.Value] = key.Line
		if err := f(key, value); err != nil {
			return err
		}
	}
	return nil
}

// Find returns the setting with the given key. If there is none, the error suggests the setting that
// other tools call by this name, or otherwise the most similar key, if any, in list or others. The caller
// handles the keys in others.
func Find(list []Setting, key *yaml.Node, name string, others ...string) (Setting, error) {
	keys, advice := slices.Clone(others), "correct or remove it"
	for _, s := range list {
		if s.Key == key.Value {
			return s, nil
		}
		keys = append(keys, s.Key)
	}
	if similar := text.Similar(key.Value, keys, 1); len(similar) > 0 {
		advice = "the nearest is " + similar[0]
	}
	plain := strings.ReplaceAll(key.Value, "-", "_")
	for _, s := range list {
		if slices.Contains(s.Synonyms, plain) {
			advice = "did you mean " + s.Key + "?"
		}
	}
	return Setting{}, fmt.Errorf("%s:%d: unknown option %.80q: %s", name, key.Line, key.Value, advice)
}

// Read sets s to a value in a file.
func (s Setting) Read(value *yaml.Node, name string) error {
	if value.Kind != yaml.ScalarNode {
		return fmt.Errorf("%s:%d: %s needs a single value", name, value.Line, s.Key)
	}
	if err := s.Set(value.Value); err != nil {
		return fmt.Errorf("%s:%d: %s %.80q: %w", name, value.Line, s.Key, value.Value, err)
	}
	return nil
}

// YAML returns a YAML file that sets each setting s in list to value(s). A comment above each
// setting contains its help text, in lines of at most 80 columns.
func YAML(list []Setting, value func(Setting) string) []byte {
	var b bytes.Buffer
	for _, s := range list {
		fmt.Fprintf(&b, "%s\n%s: %s\n", text.WrapAfter("# ", s.Help), s.Key, value(s))
	}
	return b.Bytes()
}
