package train

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

// Read sets the options that a YAML file has: a mapping of keys to values. name is that of the file,
// for messages. extra are keys that are allowed beside the options; their values are returned.
func (c *Config) Read(r io.Reader, name string, extra ...string) (map[string]string, error) {
	root, err := readMapping(r, name)
	if err != nil || root == nil {
		return nil, err
	}
	others := map[string]string{}
	return others, eachPair(root, name, func(key, value *yaml.Node) error {
		if value.Kind != yaml.ScalarNode {
			return fmt.Errorf("%s:%d: %.80s needs a single value", name, value.Line, key.Value)
		}
		if slices.Contains(extra, key.Value) {
			others[key.Value] = value.Value
			return nil
		}
		o, err := c.optionOf(key, name, extra...)
		if err != nil {
			return err
		}
		return set(o, value, name)
	})
}

// readMapping reads the mapping that a YAML file is, and returns nil if the file is empty.
func readMapping(r io.Reader, name string) (*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.NewDecoder(r).Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil // it sets nothing
	} else if err != nil {
		return nil, syntaxError(name, err)
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: a configuration is a list of lines such as \"dim: 20\"", name, root.Line)
	}
	return root, nil
}

// syntaxError says in which line of a file, which is not YAML, the reader found what.
func syntaxError(name string, err error) error {
	found := strings.TrimPrefix(err.Error(), "yaml: ")
	if at, rest, ok := strings.Cut(strings.TrimPrefix(found, "line "), ": "); ok && strings.HasPrefix(found, "line ") {
		name, found = name+":"+at, rest
	}
	return fmt.Errorf("%s: this is not YAML: %s; a line is a key and a value, such as \"dim: 20\"", name, found)
}

// eachPair calls f for the keys of a mapping, each of which may be there only once.
func eachPair(mapping *yaml.Node, name string, f func(key, value *yaml.Node) error) error {
	seen := map[string]int{}
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		if line, ok := seen[key.Value]; ok {
			return fmt.Errorf("%s:%d: %.80s is set a second time, after line %d", name, key.Line, key.Value, line)
		}
		seen[key.Value] = key.Line
		if err := f(key, value); err != nil {
			return err
		}
	}
	return nil
}

// optionOf returns the option of a key, which may also be one of extra.
func (c *Config) optionOf(key *yaml.Node, name string, extra ...string) (Option, error) {
	o, ok := c.option(key.Value)
	if !ok {
		return o, fmt.Errorf("%s:%d: unknown option %.80q: the nearest is %s", name, key.Line, key.Value,
			text.Nearest(key.Value, append(c.keys(), extra...), 1)[0])
	}
	return o, nil
}

// set gives an option the value of a scalar.
func set(o Option, value *yaml.Node, name string) error {
	if err := o.Value.Set(value.Value); err != nil {
		return fmt.Errorf("%s:%d: %s %.80q: %w", name, value.Line, o.Key, value.Value, err)
	}
	return nil
}

// YAML writes all options, each under the sentence that explains it.
func (c *Config) YAML() []byte {
	return c.yaml(func(o Option) string { return o.Value.String() })
}

// yaml writes the options with the given values.
func (c *Config) yaml(value func(Option) string) []byte {
	var b bytes.Buffer
	for _, o := range c.Options() {
		fmt.Fprintf(&b, "# %s\n%s: %s\n", strings.ReplaceAll(o.Help, "`", ""), o.Key, value(o))
	}
	return b.Bytes()
}
