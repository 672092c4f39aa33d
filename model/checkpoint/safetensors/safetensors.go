// Package safetensors reads and writes safetensors files. A file contains the length of the header
// (8 bytes, little-endian), the header (JSON with the tensors' names, element types, shapes and
// positions, and text metadata) and the tensors' data, little-endian and row-major. The package
// never executes anything in a file, and checks everything in the header.
//
// The format is described at https://github.com/huggingface/safetensors.
package safetensors

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/mquine/mquine/model/checkpoint/internal/mapped"
)

// Tensor describes one tensor of a file.
type Tensor struct {
	Name string
	// DType is the format's name for the element type, such as "F32" or "BF16".
	DType string
	// Shape holds the extents. It is empty for a scalar, and an extent may be 0.
	Shape []int

	begin, end int64 // range of the data, counted from the end of the header
}

// File is an open safetensors file, mapped into memory where the system supports it and read into
// memory elsewhere. It is safe for concurrent use, except for Mark and Close.
//
// A program that writes to the open file changes its tensors: call Mark before using them and
// Verify afterwards. If a program truncates the file, the next access crashes this process, unless
// package fault guards the access. WriteFile replaces the file, so programs that have the old file
// open are not affected.
type File struct {
	path     string
	mapped   *mapped.File
	data     []byte // the file without its header
	tensors  []Tensor
	byName   map[string]int // index into tensors
	metadata map[string]string
}

// Open opens a file and checks its whole header. An error names the file.
func Open(path string) (*File, error) { return open(path, parse) }

// OpenTruncated is like Open, but accepts a file whose header is whole and whose data end too early.
// Float32 returns an error for the tensors that lack data.
func OpenTruncated(path string) (*File, error) { return open(path, parseTruncated) }

func open(path string, parse func([]byte) (*File, error)) (*File, error) {
	m, f, err := mapped.Parse(path, parse)
	if err != nil {
		return nil, err
	}
	f.path, f.mapped = path, m
	return f, nil
}

// Metadata returns the text metadata. It is empty if the file has none. Do not modify it.
func (f *File) Metadata() map[string]string { return f.metadata }

// Tensors returns the tensors in the order of their data. Do not modify the slice.
func (f *File) Tensors() []Tensor { return f.tensors }

// Bytes returns the whole file. It is read-only and valid until Close.
func (f *File) Bytes() []byte { return f.mapped.Contents() }

// Mark records hashes of the contents for Verify.
func (f *File) Mark(ctx context.Context) error { return f.mapped.Mark(ctx) }

// Verify returns an error that names the file if the file has changed since Mark.
func (f *File) Verify(ctx context.Context) error { return f.mapped.Verify(ctx) }

// Float32 returns the elements of an F32 tensor in row-major order. On a little-endian machine with
// aligned data, they share the memory of the file, which is read-only and valid until Close.
// Otherwise they are a converted copy.
func (f *File) Float32(name string) ([]float32, error) {
	t, data, err := f.find(name)
	if err != nil {
		return nil, err
	}
	if t.DType != "F32" {
		return nil, fmt.Errorf("%s: tensor %.80q is %s, but only F32 can be read: "+
			"convert it to float32 and save it again", f.path, name, t.DType)
	}
	return mapped.Float32s(data), nil
}

// Floats returns a function that returns the elements of an F32, F64, F16 or BF16 tensor as float32, and the
// usual name of their type, such as bfloat16. The function is like Float32 for an F32 tensor, and returns
// a new copy for the others.
func (f *File) Floats(name string) (values func() []float32, kind string, err error) {
	t, data, err := f.find(name)
	if err != nil {
		return nil, "", err
	}
	convert := func(size int, value func(b []byte) float32) func() []float32 {
		return func() []float32 {
			values := make([]float32, len(data)/size)
			for i := range values {
				values[i] = value(data[i*size:])
			}
			return values
		}
	}
	switch t.DType {
	case "F32":
		return func() []float32 { return mapped.Float32s(data) }, "float32", nil
	case "F64":
		return convert(8, func(b []byte) float32 {
			return float32(math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}), "float64", nil
	case "F16":
		return convert(2, func(b []byte) float32 { return mapped.Half(binary.LittleEndian.Uint16(b)) }), "float16", nil
	case "BF16":
		return convert(2, func(b []byte) float32 {
			return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
		}), "bfloat16", nil
	}
	return nil, "", fmt.Errorf("%s: tensor %.80q is %s, but only F32, F64, F16 and BF16 can be read: "+
		"convert it to float32 and save it again", f.path, name, t.DType)
}

// find returns a tensor and its data.
func (f *File) find(name string) (t Tensor, data []byte, err error) {
	i, ok := f.byName[name]
	if !ok {
		return t, nil, fmt.Errorf("%s has no tensor %q", f.path, name)
	}
	t = f.tensors[i]
	if t.end > int64(len(f.data)) {
		return t, nil, fmt.Errorf("%s: tensor %.80q is truncated", f.path, name)
	}
	return t, f.data[t.begin:t.end], nil
}

// Close releases the file's memory. Do not use slices of its contents afterwards. A second call
// does nothing.
func (f *File) Close() error { return f.mapped.Close() }
