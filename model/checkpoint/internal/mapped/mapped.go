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

// Open returns the contents of a regular file, which must not be written to, and the function that
// gives their memory back. An error does not name the file.
//
// The file must not be changed while it is open: one that another program truncates ends this
// process with a bus error at the next access, as any mapped file does.
func Open(path string) (contents []byte, unmap func() error, err error) {
	contents, unmap, err = open(path)
	return contents, unmap, Reason(err)
}

func open(path string) ([]byte, func() error, error) {
	// Before opening: to open a named pipe would wait for its writer.
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close() // a mapping outlives the descriptor
	if info, err = file.Stat(); err != nil {
		return nil, nil, err
	}
	if info.Size() > math.MaxInt {
		return nil, nil, errors.New("it is too large for the address space of this system")
	}
	if info.Size() == 0 { // cannot be mapped
		return nil, func() error { return nil }, nil
	}
	return load(file, int(info.Size()))
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
