package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/mquine/mquine/internal/text"
)

const (
	// prefixSize is the number of bytes that hold the length of the header.
	prefixSize = 8
	// maxHeaderSize limits the length of the header, in bytes, and so the memory for reading and
	// showing the header. The format allows headers six times as long, far more than a model needs.
	maxHeaderSize = 16 << 20
	// maxEntries limits the number of tensors and of metadata entries, and maxRank the number of
	// extents of a tensor. No model needs that many, and the limits keep a hostile header from
	// filling memory.
	maxEntries = 1 << 16
	maxRank    = 32

	metadataKey = "__metadata__"
)

// elementBits maps the element types of the format to their sizes in bits.
var elementBits = map[string]uint64{
	"BOOL": 8,
	"F4":   4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
	"F8_E5M2FNUZ": 8, "F8_E4M3FNUZ": 8,
	"U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
	"F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}

// parse reads and checks the header of a file, given all its bytes.
func parse(file []byte) (*File, error) { return parseFile(file, false) }

// parseTruncated is like parse, but accepts a file that ends before the data of its tensors.
func parseTruncated(file []byte) (*File, error) { return parseFile(file, true) }

func parseFile(file []byte, truncated bool) (*File, error) {
	if len(file) < prefixSize {
		return nil, fmt.Errorf("not a safetensors file: it has %s, but the length of the header alone needs %d",
			text.Plural(len(file), "byte"), prefixSize)
	}
	size, rest := binary.LittleEndian.Uint64(file), file[prefixSize:]
	if size > maxHeaderSize {
		return nil, fmt.Errorf("not a safetensors file, or one with too much metadata: "+
			"it claims a header of %d bytes, but at most %d are allowed", size, maxHeaderSize)
	}
	if size > uint64(len(rest)) {
		return nil, fmt.Errorf("truncated or not a safetensors file: "+
			"it claims a header of %d bytes, but only %d follow the length", size, len(rest))
	}
	header := rest[:size]
	if size == 0 || header[0] != '{' {
		return nil, errors.New("not a safetensors file: the header does not begin with {")
	}
	if !utf8.Valid(header) {
		return nil, errors.New("the header is not valid UTF-8")
	}
	// Check the whole syntax first, because json.Decoder.Token is not strict.
	if err := json.Unmarshal(header, &struct{}{}); err != nil {
		return nil, fmt.Errorf("the header is not valid JSON: %w", err)
	}
	f := &File{data: rest[size:], metadata: map[string]string{}}
	d := newDecoder(header)
	err := d.object("the header", func(name string) (err error) {
		if name == metadataKey {
			f.metadata, err = d.metadata()
			return err
		}
		t, err := d.tensor(name)
		f.tensors = append(f.tensors, t)
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, f.checkLayout(truncated)
}

// checkLayout sorts the tensors by the position of their data and checks that they cover the data
// without overlaps or gaps. If truncated is set, the data may end too early.
func (f *File) checkLayout(truncated bool) error {
	slices.SortFunc(f.tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.Name, b.Name))
	})
	f.byName = make(map[string]int, len(f.tensors))
	size := int64(len(f.data))
	var last int64
	for i, t := range f.tensors {
		switch {
		case t.end > size && !truncated:
			return fmt.Errorf("truncated or damaged: tensor %.80q ends at byte %d of the data, which has only %d",
				t.Name, t.end, size)
		case t.begin < last:
			return fmt.Errorf("tensors %.80q and %.80q overlap", f.tensors[i-1].Name, t.Name)
		case t.begin > last:
			return fmt.Errorf("the data has %s before tensor %.80q that no tensor uses",
				text.Plural(int(t.begin-last), "byte"), t.Name)
		}
		last = t.end
		f.byName[t.Name] = i
	}
	if last < size {
		return fmt.Errorf("the file ends with %s that no tensor uses", text.Plural(int(size-last), "byte"))
	}
	return nil
}

// decoder reads a header with valid JSON syntax.
type decoder struct{ *json.Decoder }

func newDecoder(raw []byte) decoder {
	d := decoder{json.NewDecoder(bytes.NewReader(raw))}
	d.UseNumber()
	return d
}

// object reads an object. For each key, it calls the function field, which reads the value.
func (d decoder) object(what string, field func(key string) error) error {
	if err := d.delim('{', what, "an object"); err != nil {
		return err
	}
	seen := make(map[string]struct{})
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, ok := token.(string)
		if !ok {
			return fmt.Errorf("%s has a key that is not a string", what)
		}
		if _, ok := seen[key]; ok {
			return fmt.Errorf("%s has %.80q twice", what, key)
		}
		if len(seen) == maxEntries {
			return fmt.Errorf("%s has more than %d entries", what, maxEntries)
		}
		seen[key] = struct{}{}
		if err := field(key); err != nil {
			return err
		}
	}
	return d.delim('}', what, "an object")
}

// metadata reads the value of "__metadata__".
func (d decoder) metadata() (map[string]string, error) {
	metadata := make(map[string]string)
	err := d.object("the metadata", func(key string) (err error) {
		metadata[key], err = d.text(fmt.Sprintf("metadata entry %.80q", key))
		return err
	})
	return metadata, err
}

// tensor reads the description of a tensor and checks that its size fits its shape.
func (d decoder) tensor(name string) (Tensor, error) {
	t := Tensor{Name: name}
	what := fmt.Sprintf("tensor %.80q", name)
	var shape, offsets []int64
	err := d.object(what, func(key string) (err error) {
		switch key {
		case "dtype":
			t.DType, err = d.text("the dtype of " + what)
		case "shape":
			shape, err = d.integers("the shape of " + what)
		case "data_offsets":
			offsets, err = d.integers("data_offsets of " + what)
		default:
			err = fmt.Errorf("%s has an unknown property %.80q", what, key)
		}
		return err
	})
	if err != nil {
		return t, err
	}
	if t.DType == "" || shape == nil || offsets == nil {
		return t, fmt.Errorf("%s lacks dtype, shape or data_offsets", what)
	}
	perElement, ok := elementBits[t.DType]
	if !ok {
		return t, fmt.Errorf("%s has the unknown dtype %.80q", what, t.DType)
	}
	if len(offsets) != 2 || offsets[0] > offsets[1] {
		return t, fmt.Errorf("%s has data_offsets %v: they must be its beginning and its end", what, offsets)
	}
	t.begin, t.end = offsets[0], offsets[1]
	size, ok := byteSize(shape, perElement)
	if !ok {
		return t, fmt.Errorf("%s is impossible: %s of shape %v", what, t.DType, shape)
	}
	if size != t.end-t.begin {
		return t, fmt.Errorf("%s has %d bytes, but %s of shape %v needs %d", what, t.end-t.begin, t.DType, shape, size)
	}
	t.Shape = make([]int, len(shape))
	for i, extent := range shape {
		t.Shape[i] = int(extent)
	}
	return t, nil
}

// byteSize returns the size of a tensor in bytes. ok is false if the size overflows or is not a
// whole number of bytes.
func byteSize(shape []int64, perElement uint64) (size int64, ok bool) {
	total := perElement
	for _, extent := range shape {
		over, product := bits.Mul64(total, uint64(extent))
		if over != 0 {
			return 0, false
		}
		total = product
	}
	return int64(total / 8), total%8 == 0
}

// integers reads a list of at most maxRank integers from 0 to math.MaxInt. If it returns no error,
// the list is not nil.
func (d decoder) integers(what string) ([]int64, error) {
	const want = "a list of integers"
	if err := d.delim('[', what, want); err != nil {
		return nil, err
	}
	list := []int64{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		if len(list) == maxRank {
			return nil, fmt.Errorf("%s has more than %d numbers", what, maxRank)
		}
		number, ok := token.(json.Number)
		if !ok {
			return nil, wrong(what, want, token)
		}
		n, err := strconv.ParseUint(number.String(), 10, 64)
		if err != nil || n > math.MaxInt {
			return nil, wrong(what, "a list of integers from 0", token)
		}
		list = append(list, int64(n))
	}
	return list, d.delim(']', what, want)
}

// text reads a string.
func (d decoder) text(what string) (string, error) {
	token, err := d.Token()
	if err != nil {
		return "", err
	}
	s, ok := token.(string)
	if !ok {
		return "", wrong(what, "a string", token)
	}
	return s, nil
}

// delim reads a delimiter.
func (d decoder) delim(delim json.Delim, what, want string) error {
	token, err := d.Token()
	if err == nil && token != delim {
		err = wrong(what, want, token)
	}
	return err
}

func wrong(what, want string, token json.Token) error {
	if token == nil {
		token = "null"
	}
	return fmt.Errorf("%s must be %s, not %.40v", what, want, token)
}
