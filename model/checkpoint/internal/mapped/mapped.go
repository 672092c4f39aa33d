// Package mapped gives the contents of files as memory: mapped where the system allows, read
// elsewhere.
package mapped

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"unsafe"
)

// File is the contents of an open file. Where they are mapped, another program that writes to the file
// changes them, which Verify tells, and one that truncates it makes reading them a fault, which package
// fault turns into an error. One that puts another file under the name does neither.
type File struct {
	path     string
	contents []byte
	unmap    func() error // nil if nothing is mapped
	// file stays open to tell whether what is mapped has changed, even if another file has the name by now.
	// It is nil if the contents are a copy. opened has its size and its time before the first read.
	file   *os.File
	opened fs.FileInfo
	hashes []uint64 // by Mark
}

// Open opens a regular file. An error does not name it.
func Open(path string) (*File, error) {
	f, err := open(path)
	return f, Reason(err)
}

func open(path string) (*File, error) {
	// Before opening: to open a named pipe would wait for its writer.
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
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

// load makes the first size bytes of the file the contents.
func (f *File) load(size int64) error {
	switch {
	case size > math.MaxInt:
		return errors.New("it is too large for the address space of this system")
	case size == 0: // cannot be mapped
		return nil
	}
	return f.loadBytes(int(size))
}

// Contents returns the whole file, valid until Close and not to be written to.
func (f *File) Contents() []byte { return f.contents }

// Close gives the memory back. A second call does nothing.
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

// Reason returns what went wrong without the system call and the name, which the message has
// already.
func Reason(err error) error {
	var named *fs.PathError
	if errors.As(err, &named) {
		return named.Err
	}
	return err
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// Float32s returns little-endian elements as numbers: the memory itself where the machine is
// little-endian and the data is aligned, a converted copy elsewhere.
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
