package train

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Read sets the options that a YAML file has: a mapping of keys to values. name is that of the file,
// for messages. extra are keys that are allowed beside the options; their values are returned.
func (c *Config) Read(r io.Reader, name string, extra ...string) (map[string]string, error) {
	var document yaml.Node
	if err := yaml.NewDecoder(r).Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil // an empty file sets nothing
	} else if err != nil {
		return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: a configuration is a list of lines such as \"dim: 20\"", name, root.Line)
	}
	others := map[string]string{}
	seen := map[string]int{}
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if line, ok := seen[key.Value]; ok {
			return nil, fmt.Errorf("%s:%d: %s is set a second time, after line %d", name, key.Line, key.Value, line)
		}
		seen[key.Value] = key.Line
		if value.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("%s:%d: %.80s needs a single value", name, value.Line, key.Value)
		}
		if slices.Contains(extra, key.Value) {
			others[key.Value] = value.Value
			continue
		}
		o, ok := c.option(key.Value)
		if !ok {
			return nil, fmt.Errorf("%s:%d: unknown option %.80q: the nearest is %s", name, key.Line, key.Value,
				nearest(key.Value, append(c.keys(), extra...)))
		}
		if err := o.Value.Set(value.Value); err != nil {
			return nil, fmt.Errorf("%s:%d: %s %.80q: %w", name, value.Line, key.Value, value.Value, err)
		}
	}
	return others, nil
}

// YAML writes all options, each under the sentence that explains it.
func (c *Config) YAML() []byte {
	var b bytes.Buffer
	for _, o := range c.Options() {
		fmt.Fprintf(&b, "# %s\n%s: %s\n", strings.ReplaceAll(o.Help, "`", ""), o.Key, o.Value)
	}
	return b.Bytes()
}

// nearest returns the word with the smallest edit distance.
func nearest(word string, from []string) string {
	return slices.MinFunc(from, func(a, b string) int { return editDistance(word, a) - editDistance(word, b) })
}

// editDistance is the number of letters to insert, to delete or to change.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
