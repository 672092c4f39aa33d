// Package npy reads NumPy's .npy files of float32 numbers: a magic string, the version, the length
// of a header, the header (element type, order, shape, as a Python dictionary) and the elements.
// Nothing in a file is ever executed, and everything that it says about itself is checked.
//
// The format is described at https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
package npy

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/model/checkpoint/internal/mapped"
)

// File is an open .npy file, mapped into memory where the system allows and read into memory
// elsewhere. It is safe for concurrent use, except for Mark and Close. Another program that writes to
// the file while it is open changes what is read from it: call Mark before and Verify after reading.
type File struct {
	mapped *mapped.File
	data   []byte // the file without its header
	shape  []int
}

// Open opens a file of little-endian float32 numbers in C order. An error is one sentence that names
// the file.
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
	f.mapped = m
	return f, nil
}

// Shape returns the extents, none for a scalar; do not modify it.
func (f *File) Shape() []int { return f.shape }

// Bytes returns the whole file, valid until Close and not to be written to.
func (f *File) Bytes() []byte { return f.mapped.Contents() }

// Mark remembers what is in the file, for Verify.
func (f *File) Mark(ctx context.Context) error { return f.mapped.Mark(ctx) }

// Verify returns an error, which names the file, if the file was changed since Mark.
func (f *File) Verify(ctx context.Context) error { return f.mapped.Verify(ctx) }

// Float32 returns the elements in row-major order. Where the machine is little-endian and the data
// is aligned they are the mapped file itself: valid until Close, and to write to them is a fault.
// Elsewhere they are a converted copy.
func (f *File) Float32() []float32 { return mapped.Float32s(f.data) }

// Close gives the file's memory back; slices of it must not be used afterwards. A second call does
// nothing.
func (f *File) Close() error { return f.mapped.Close() }

const (
	magic = "\x93NUMPY"
	// maxHeader is far more than a float32 array needs.
	maxHeader = 1 << 16
)

// parse checks a file with these bytes.
func parse(file []byte) (*File, error) {
	if !bytes.HasPrefix(file, []byte(magic)) || len(file) < len(magic)+4 {
		return nil, errors.New("not a .npy file: it does not begin as one")
	}
	major, rest := file[len(magic)], file[len(magic)+2:]
	var size int
	switch {
	case major == 1:
		size, rest = int(binary.LittleEndian.Uint16(rest)), rest[2:]
	case (major == 2 || major == 3) && len(rest) >= 4:
		size, rest = int(min(binary.LittleEndian.Uint32(rest), maxHeader+1)), rest[4:]
	case major == 2 || major == 3:
		return nil, errors.New("truncated: it ends before its header")
	default:
		return nil, fmt.Errorf("version %d of the .npy format is unknown: save it with numpy.save", major)
	}
	if size > maxHeader {
		return nil, fmt.Errorf("damaged, or no array of numbers: its header has more than %d bytes", maxHeader)
	}
	if size > len(rest) {
		return nil, fmt.Errorf("truncated: its header has %d bytes, and %d are left", size, len(rest))
	}
	h, err := parseHeader(rest[:size])
	if err != nil {
		return nil, err
	}
	switch {
	case h.descr == "<f4":
	case h.descr == ">f4":
		return nil, errors.New("its numbers are big-endian float32 (>f4): save it again after astype('<f4')")
	default:
		return nil, fmt.Errorf("its elements have type %.40q, and only float32 (<f4) can be read: save it again after astype('<f4')", h.descr)
	}
	if h.fortran {
		return nil, errors.New("its elements are in Fortran order: save it again after numpy.ascontiguousarray")
	}
	f := &File{data: rest[size:], shape: h.shape}
	want := uint64(4)
	for _, n := range h.shape {
		over, product := bits.Mul64(want, uint64(n))
		if over != 0 {
			return nil, fmt.Errorf("its shape %v is impossible", h.shape)
		}
		want = product
	}
	if got := uint64(len(f.data)); got != want {
		return nil, fmt.Errorf("truncated or damaged: float32 of shape %v needs %d bytes, and %d follow the header", h.shape, want, got)
	}
	return f, nil
}
