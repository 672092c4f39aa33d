// Package safetensors reads and writes safetensors files. A file contains the length of the header
// (8 bytes, little-endian), the header (JSON with the tensors' names, element types, shapes and
// positions, and text metadata) and the tensors' data, little-endian and row-major. The package
// never executes anything in a file, and checks everything in the header.
//
// The format is described at https://github.com/huggingface/safetensors.
package safetensors

import (
	"context"
	"fmt"

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
	i, ok := f.byName[name]
	if !ok {
		return nil, fmt.Errorf("%s has no tensor %q", f.path, name)
	}
	t := f.tensors[i]
	if t.DType != "F32" {
		return nil, fmt.Errorf("%s: tensor %.80q is %s, but only F32 can be read: "+
			"convert it to float32 and save it again", f.path, name, t.DType)
	}
	if t.end > int64(len(f.data)) {
		return nil, fmt.Errorf("%s: tensor %.80q is truncated", f.path, name)
	}
	return mapped.Float32s(f.data[t.begin:t.end]), nil
}

// Close releases the file's memory. Do not use slices of its contents afterwards. A second call
// does nothing.
func (f *File) Close() error { return f.mapped.Close() }
