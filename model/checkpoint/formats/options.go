package formats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/model/checkpoint/internal/mapped"
)

// MaxOptions limits the size of a file of options, such as ExportConfig, in bytes.
const MaxOptions = 1 << 20

// readOptions reads a JSON object of training options, which a byte order mark may precede, and adds
// its strings, numbers and booleans to the metadata.
func (f *Folder) readOptions(file string) (values map[string]any, err error) {
	path := filepath.Join(f.Path, file)
	open, err := mapped.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: without the training options, no scores can be computed", path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	defer open.Close()
	defer fault.Guard().Catch(&err)
	if n := len(open.Contents()); n > MaxOptions {
		return nil, fmt.Errorf("%s has %d bytes, which is too many for training options", path, n)
	}
	text := bytes.TrimPrefix(open.Contents(), []byte("\ufeff"))
	var wrong *json.SyntaxError
	if err := json.Unmarshal(text, new(json.RawMessage)); errors.As(err, &wrong) {
		line := 1 + bytes.Count(text[:min(wrong.Offset, int64(len(text)))], []byte("\n"))
		return nil, fmt.Errorf("%s is not a single JSON object: %w (line %d)", path, err, line)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&values); err != nil || values == nil {
		return nil, fmt.Errorf("%s is not a single JSON object", path)
	}
	f.describe(values)
	return values, nil
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

// options holds training options that a conversion needs. Its methods record the first missing or
// invalid option in err.
type options struct {
	path   string
	values map[string]any
	err    error
}

// neededOptions reads a JSON object of training options.
func (f *Folder) neededOptions(file string) (*options, error) {
	values, err := f.readOptions(file)
	return &options{path: filepath.Join(f.Path, file), values: values}, err
}

// fail records an error unless err already holds one.
func (o *options) fail(format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf("%s: "+format, append([]any{o.path}, args...)...)
	}
}

// wrong records that an option is missing or has the wrong type.
func (o *options) wrong(key, want string) {
	v, given := o.values[key]
	is := "a list or an object"
	switch v := v.(type) {
	case nil:
		is = "null"
	case string:
		is = fmt.Sprintf("the text %.40q", v)
	case json.Number, bool:
		is = fmt.Sprintf("%.40s", fmt.Sprint(v))
	}
	if given {
		o.fail("option %q is %s, not %s", key, is, want)
	} else {
		o.fail("option %q is missing", key)
	}
}

// string returns a string option, or "" if it is null or missing.
func (o *options) string(key string) string {
	text, ok := o.values[key].(string)
	if !ok && o.values[key] != nil {
		o.wrong(key, "a string")
	}
	return text
}

func (o *options) boolean(key string) bool {
	v, ok := o.values[key].(bool)
	if !ok {
		o.wrong(key, "true or false")
	}
	return v
}

// integer returns a positive integer, such as a number of rows.
func (o *options) integer(key string) int {
	v, _ := o.values[key].(json.Number)
	n, err := strconv.ParseInt(v.String(), 10, 32)
	if err != nil || n < 1 {
		o.wrong(key, "a positive integer")
	}
	return int(n)
}

func (o *options) number(key string) float64 {
	v, _ := o.values[key].(json.Number)
	x, err := strconv.ParseFloat(v.String(), 64)
	if err != nil || math.IsInf(x, 0) {
		o.wrong(key, "a number")
	}
	return x
}
