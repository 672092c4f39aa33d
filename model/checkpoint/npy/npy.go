// Package npy reads NumPy's .npy files of floating-point numbers or integers, and writes files of
// float32. A file contains a magic string, the format version, the length of the header, the header
// (element type, order and shape, as a Python dictionary) and the elements. The package never
// executes anything in a file, and checks everything in the header.
//
// The format is described at
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
package npy

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/mquine/mquine/model/checkpoint/internal/mapped"
)

// File is an open .npy file, mapped into memory where the system supports it and read into memory
// elsewhere. It is safe for concurrent use, except for Mark and Close. A program that writes to the
// open file changes the elements: call Mark before using them and Verify afterwards.
type File struct {
	mapped *mapped.File
	data   []byte // the file without its header
	kind   kind
	shape  []int
}

// kind is a type of elements.
type kind struct {
	name    string
	size    int                    // in bytes
	convert func(b []byte) float32 // nil for little-endian float32 and for integers
	integer func(b []byte) int64   // nil for floating-point numbers
}

// kinds maps NumPy's type descriptions to the types that this package reads.
var kinds = map[string]kind{
	"<f4": {"float32", 4, nil, nil},
	">f4": {"big-endian float32", 4,
		func(b []byte) float32 { return math.Float32frombits(binary.BigEndian.Uint32(b)) }, nil},
	"<f8": {"float64", 8,
		func(b []byte) float32 { return float32(math.Float64frombits(binary.LittleEndian.Uint64(b))) }, nil},
	">f8": {"big-endian float64", 8,
		func(b []byte) float32 { return float32(math.Float64frombits(binary.BigEndian.Uint64(b))) }, nil},
	"<f2": {"float16", 2, func(b []byte) float32 { return mapped.Half(binary.LittleEndian.Uint16(b)) }, nil},
	">f2": {"big-endian float16", 2,
		func(b []byte) float32 { return mapped.Half(binary.BigEndian.Uint16(b)) }, nil},
	"<i8": {"int64", 8, nil, func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }},
	"<i4": {"int32", 4, nil, func(b []byte) int64 { return int64(int32(binary.LittleEndian.Uint32(b))) }},
}

// Open opens a file of float32, float64 or float16 numbers in C order. An error names the file.
func Open(path string) (*File, error) { return open(path, false) }

// OpenIntegers opens a file of little-endian int64 or int32 numbers in C order. An error names the
// file.
func OpenIntegers(path string) (*File, error) { return open(path, true) }

func open(path string, integers bool) (*File, error) {
	m, f, err := mapped.Parse(path, func(contents []byte) (*File, error) { return parse(contents, integers) })
	if err != nil {
		return nil, err
	}
	f.mapped = m
	return f, nil
}

// Type returns the type of the elements: float32, float64, float16, int64 or int32. If they are
// big-endian, "big-endian" precedes the type.
func (f *File) Type() string { return f.kind.name }

// Shape returns the extents of the array. It is empty for a scalar. Do not modify it.
func (f *File) Shape() []int { return f.shape }

// Bytes returns the whole file. It is read-only and valid until Close.
func (f *File) Bytes() []byte { return f.mapped.Contents() }

// Mark records hashes of the contents for Verify.
func (f *File) Mark(ctx context.Context) error { return f.mapped.Mark(ctx) }

// Verify returns an error that names the file if the file has changed since Mark.
func (f *File) Verify(ctx context.Context) error { return f.mapped.Verify(ctx) }

// Float32 returns the elements in row-major order, rounded to float32 if they are float64. On a
// little-endian machine, aligned little-endian float32 numbers share the memory of the file, which
// is read-only and valid until Close. Otherwise the elements are a converted copy. Float32 panics if
// OpenIntegers opened the file.
func (f *File) Float32() []float32 {
	if f.kind.integer != nil {
		panic("npy: Float32 of a file of integers")
	}
	if f.kind.convert == nil {
		return mapped.Float32s(f.data)
	}
	values := make([]float32, len(f.data)/f.kind.size)
	for i := range values {
		values[i] = f.kind.convert(f.data[i*f.kind.size:])
	}
	return values
}

// Integer returns the element with the given number, in row-major order, of a file that
// OpenIntegers opened. It panics if Open opened the file, or if the array has no such element.
func (f *File) Integer(i int) int64 { return f.kind.integer(f.data[i*f.kind.size:]) }

// Close releases the file's memory. Do not use slices of its contents afterwards. A second call
// does nothing.
func (f *File) Close() error { return f.mapped.Close() }

const (
	magic = "\x93NUMPY"
	// maxHeader limits the length of the header, in bytes. The header of an array of numbers is much
	// shorter.
	maxHeader = 1 << 16
)

// parse checks the bytes of a file. The elements must be integers if integers is set, and
// floating-point numbers otherwise.
func parse(file []byte, integers bool) (*File, error) {
	if !bytes.HasPrefix(file, []byte(magic)) || len(file) < len(magic)+4 {
		return nil, errors.New("not a .npy file: its magic string is missing")
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
		return nil, fmt.Errorf("damaged, or not an array of numbers: its header has more than %d bytes", maxHeader)
	}
	if size > len(rest) {
		return nil, fmt.Errorf("truncated: its header has %d bytes, but only %d follow", size, len(rest))
	}
	h, err := parseHeader(rest[:size])
	if err != nil {
		return nil, err
	}
	elements, known := kinds[h.descr]
	if !known || (elements.integer != nil) != integers {
		wanted, as := "float32, float64 and float16", "<f4"
		if integers {
			wanted, as = "int64 and int32", "<i8"
		}
		return nil, fmt.Errorf("its elements have type %.40q, but only %s can be read: "+
			"save it again after astype('%s')", h.descr, wanted, as)
	}
	if h.fortran {
		return nil, errors.New("its elements are in Fortran order: save it again after numpy.ascontiguousarray")
	}
	f := &File{data: rest[size:], kind: elements, shape: h.shape}
	want := uint64(elements.size)
	for _, n := range h.shape {
		over, product := bits.Mul64(want, uint64(n))
		if over != 0 {
			return nil, fmt.Errorf("its shape %v is impossible", h.shape)
		}
		want = product
	}
	if got := uint64(len(f.data)); got != want {
		return nil, fmt.Errorf("truncated or damaged: %s of shape %v needs %d bytes, but %d follow the header",
			elements.name, h.shape, want, got)
	}
	return f, nil
}
