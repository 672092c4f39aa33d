// Package mapped provides the contents of files in memory. It maps files where the system supports
// it and reads them elsewhere.
package mapped

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"unsafe"

	"github.com/mquine/mquine/internal/fault"
)

// File holds the contents of an open file. If they are mapped, a program that writes to the file
// changes them; Verify detects the change. If a program truncates the file, reads of the contents
// fault. Package fault turns the faults of guarded reads into errors. Replacing the file with a new
// one of the same name has no effect.
type File struct {
	path     string
	contents []byte
	unmap    func() error // nil if the contents are not mapped
	// file stays open so that Verify can check it even after another file has taken its name. It is
	// nil if the contents are a copy. opened describes file before the first read.
	file   *os.File
	opened fs.FileInfo
	hashes []uint64 // set by Mark
}

// Open opens a regular file. Errors do not name it.
func Open(path string) (*File, error) {
	f, err := open(path)
	return f, Reason(err)
}

func open(path string) (*File, error) {
	// Opening a named pipe would block until it has a writer, so check first.
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file: name a file, or copy the data to one")
	}
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, file: file}
	if f.opened, err = file.Stat(); err == nil {
		err = f.load(f.opened.Size())
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Parse opens a regular file and parses its contents. Errors name the file.
func Parse[T any](path string, parse func(contents []byte) (T, error)) (_ *File, parsed T, err error) {
	f, err := Open(path)
	if err != nil {
		return nil, parsed, fmt.Errorf("reading %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	defer fault.Guard().Catch(&err)
	if parsed, err = parse(f.Contents()); err != nil {
		return nil, parsed, fmt.Errorf("%s: %w", path, err)
	}
	return f, parsed, nil
}

// load sets the contents to the first size bytes of the file.
func (f *File) load(size int64) error {
	switch {
	case size > math.MaxInt:
		return errors.New("it is too large for the address space of this system")
	case size == 0: // an empty file cannot be mapped
		return nil
	}
	return f.loadBytes(int(size))
}

// Contents returns the whole file. It is read-only and valid until Close.
func (f *File) Contents() []byte { return f.contents }

// Close releases the memory. A second call does nothing.
func (f *File) Close() error {
	unmap, file := f.unmap, f.file
	f.contents, f.unmap, f.file = nil, nil, nil
	var errs []error
	if unmap != nil {
		errs = append(errs, unmap())
	}
	if file != nil {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}

// Reason returns the cause of err without the system call and the path, for messages that name the
// file themselves.
func Reason(err error) error {
	var named *fs.PathError
	if errors.As(err, &named) {
		return named.Err
	}
	return err
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// Float32s returns little-endian data as float32 numbers. On a little-endian machine with aligned
// data, the result shares the memory of the data. Otherwise it is a converted copy.
func Float32s(data []byte) []float32 {
	n := len(data) / 4
	if n == 0 {
		return []float32{}
	}
	if p := unsafe.Pointer(unsafe.SliceData(data)); littleEndian && uintptr(p)%4 == 0 {
		return unsafe.Slice((*float32)(p), n)
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return values
}

// Bytes is the inverse of Float32s.
func Bytes(values []float32) []byte {
	if littleEndian {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
	}
	data := make([]byte, 0, 4*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}

// Half converts an IEEE 754 half-precision number.
func Half(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch exponent {
	case 0: // zero, or a subnormal number: fraction·2⁻²⁴
		return math.Float32frombits(math.Float32bits(float32(fraction)*0x1p-24) | sign)
	case 0x1f: // infinity or NaN
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}
