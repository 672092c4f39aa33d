// Package safetensors reads and writes safetensors files: the length of a header (8 bytes,
// little-endian), the header (JSON: names, element types, shapes, places; text metadata) and the
// tensors' data, little-endian and row-major. Nothing in a file is ever executed, and everything
// that a file says about itself is checked before it is used.
//
// The format is described at https://github.com/huggingface/safetensors.
package safetensors

import (
	"context"
	"fmt"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/model/checkpoint/internal/mapped"
)

// Tensor describes one tensor of a file.
type Tensor struct {
	Name string
	// DType is the element type as the format names it, such as "F32" or "BF16".
	DType string
	// Shape has the extents; it is empty for a scalar, and an extent may be 0.
	Shape []int

	begin, end int64 // of the data, from the end of the header
}

// File is an open safetensors file, mapped into memory where the system allows and read into
// memory elsewhere. It is safe for concurrent use, except for Mark and Close.
//
// Another program that writes to the file while it is open changes what is read from it: call Mark
// before and Verify after reading. One that truncates the file ends this process with a bus error at the
// next access, as with any mapped file. WriteFile puts a new file in the place of the old one, and does
// not disturb those who have the old one open.
type File struct {
	path     string
	mapped   *mapped.File
	data     []byte // the file without its header
	tensors  []Tensor
	byName   map[string]int // index into tensors
	metadata map[string]string
}

// Open opens a file and checks its header in full. An error is one sentence that names the file.
func Open(path string) (_ *File, err error) {
	m, err := mapped.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = m.Close()
		}
	}()
	defer fault.Guard().Catch(&err)
	f, err := parse(m.Contents())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f.path, f.mapped = path, m
	return f, nil
}

// Metadata returns the text metadata, empty if the file has none; do not modify it.
func (f *File) Metadata() map[string]string { return f.metadata }

// Tensors returns the tensors in the order of their data; do not modify it.
func (f *File) Tensors() []Tensor { return f.tensors }

// Bytes returns the whole file, valid until Close and not to be written to.
func (f *File) Bytes() []byte { return f.mapped.Contents() }

// Mark remembers what is in the file, for Verify.
func (f *File) Mark(ctx context.Context) error { return f.mapped.Mark(ctx) }

// Verify returns an error, which names the file, if the file was changed since Mark.
func (f *File) Verify(ctx context.Context) error { return f.mapped.Verify(ctx) }

// Float32 returns the elements of an F32 tensor in row-major order. Where the machine is
// little-endian and the data is aligned they are the mapped file itself: valid until Close, and
// to write to them is a fault. Elsewhere they are a converted copy.
func (f *File) Float32(name string) ([]float32, error) {
	i, ok := f.byName[name]
	if !ok {
		return nil, fmt.Errorf("%s: there is no tensor %q in it", f.path, name)
	}
	t := f.tensors[i]
	if t.DType != "F32" {
		return nil, fmt.Errorf("%s: tensor %.80q is %s, and only F32 can be read: convert it to float32 and save it again", f.path, name, t.DType)
	}
	return mapped.Float32s(f.data[t.begin:t.end]), nil
}

// Close gives the file's memory back; slices of it must not be used afterwards. A second call
// does nothing.
func (f *File) Close() error { return f.mapped.Close() }
