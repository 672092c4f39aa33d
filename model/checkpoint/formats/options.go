package formats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/model/checkpoint/internal/mapped"
)

// maxOptions limits the size of a file of options, in bytes.
const maxOptions = 1 << 20

// readOptions reads a JSON object of training options and adds its strings, numbers and booleans to
// the metadata.
func (f *Folder) readOptions(file string) (options map[string]any, err error) {
	path := filepath.Join(f.Path, file)
	open, err := mapped.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	defer open.Close()
	defer fault.Guard().Catch(&err)
	if n := len(open.Contents()); n > maxOptions {
		return nil, fmt.Errorf("%s has %d bytes, which is too many for training options", path, n)
	}
	d := json.NewDecoder(bytes.NewReader(open.Contents()))
	d.UseNumber()
	if err := d.Decode(&options); err != nil || options == nil || d.More() {
		return nil, fmt.Errorf("%s is not a single JSON object", path)
	}
	f.describe(options)
	return options, nil
}

// describe adds the strings, numbers and booleans of options to the metadata.
func (f *Folder) describe(options map[string]any) {
	for key, value := range options {
		switch v := value.(type) {
		case string, bool, json.Number, int64, float64:
			f.Metadata[key] = fmt.Sprint(v)
		}
	}
}

// number returns a numeric option.
func number(options map[string]any, key string) (float64, bool) {
	v, ok := options[key].(json.Number)
	x, err := v.Float64()
	return x, ok && err == nil
}
