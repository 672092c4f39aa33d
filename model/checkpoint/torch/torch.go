// Package torch reads the files that PyTorch's torch.save writes, without executing anything in
// them.
//
// Since version 1.6, such a file is a zip archive. It has a pickle of the saved value, and one
// record for each storage, which holds the elements of one or several tensors. Older versions wrote
// a sequence of pickles, followed by the storages. Package torch reads both. It maps the file into
// memory and does not copy the elements of float32 tensors.
//
// File torch/serialization.py in https://github.com/pytorch/pytorch defines the formats.
package torch

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/big"
	"strings"

	"github.com/mquine/mquine/model/checkpoint/internal/mapped"
	"github.com/mquine/mquine/model/checkpoint/pickle"
)

const (
	// maxPickle limits the size of the pickle, in bytes. The largest pickles hold the labels of a
	// graph. Package pickle limits the number of values, which need more memory than the pickle.
	maxPickle = 1 << 28
	// maxByteOrder is the length in bytes of the longest valid content of the record byteorder.
	maxByteOrder = len("little")
)

// File is an open file that torch.save wrote, mapped into memory where the system supports it and
// read into memory elsewhere. It is safe for concurrent use, except for Mark and Close. A program
// that writes to the open file changes the tensors: call Mark before using them and Verify
// afterwards.
type File struct {
	mapped *mapped.File
	// Value is the saved value, in the types of package pickle, with a *Tensor for each tensor.
	Value any
}

// Open opens a file. Its pickle may refer to the classes that PyTorch itself needs for dictionaries
// of tensors, and to the classes that opaque allows. Objects of the classes that opaque allows
// become *pickle.Object. A nil opaque allows no class. An error names the file.
func Open(path string, opaque func(pickle.Global) bool) (*File, error) {
	m, value, err := mapped.Parse(path, func(contents []byte) (any, error) {
		return read(contents, opaque)
	})
	if err != nil {
		return nil, err
	}
	return &File{m, value}, nil
}

// Bytes returns the whole file. It is read-only and valid until Close.
func (f *File) Bytes() []byte { return f.mapped.Contents() }

// Mark records hashes of the contents for Verify.
func (f *File) Mark(ctx context.Context) error { return f.mapped.Mark(ctx) }

// Verify returns an error that names the file if the file has changed since Mark.
func (f *File) Verify(ctx context.Context) error { return f.mapped.Verify(ctx) }

// Close releases the file's memory. Do not use its tensors afterwards. A second call does nothing.
func (f *File) Close() error { return f.mapped.Close() }

// read returns the value in a file.
func read(contents []byte, opaque func(pickle.Global) bool) (any, error) {
	switch {
	case bytes.HasPrefix(contents, []byte("PK\x03\x04")):
		return readArchive(contents, opaque)
	case len(contents) > 1 && contents[0] == 0x80 && contents[1] >= 2: // the first instruction of a pickle
		return readLegacy(contents, opaque)
	}
	return nil, errors.New("it is not a file of torch.save, or a version of PyTorch before 0.4 wrote it: " +
		"load it with a current PyTorch and save it again")
}

// archive is a zip archive written by torch.save.
type archive struct {
	contents []byte
	records  map[string]*zip.File
	// top is the name of the folder that holds all records, with a slash.
	top      string
	storages map[string]*storage
	// read is the total size of the records that were read.
	read uint64
}

func readArchive(contents []byte, opaque func(pickle.Global) bool) (any, error) {
	reader, err := zip.NewReader(bytes.NewReader(contents), int64(len(contents)))
	if err != nil {
		return nil, fmt.Errorf("it is a damaged or truncated archive: %w", err)
	}
	a := archive{contents: contents, records: map[string]*zip.File{}, storages: map[string]*storage{}}
	for _, record := range reader.File {
		if a.records[record.Name] != nil {
			return nil, fmt.Errorf("it is a damaged archive: it has two records named %.100q", record.Name)
		}
		a.records[record.Name] = record
		if top, found := strings.CutSuffix(record.Name, "/data.pkl"); found && !strings.Contains(top, "/") {
			if a.top != "" {
				return nil, errors.New("it is a damaged archive: it has two pickles")
			}
			a.top = top + "/"
		}
	}
	if a.top == "" {
		return nil, errors.New("it is a zip archive, but torch.save did not write it: it has no record data.pkl")
	}
	if err := a.checkByteOrder(); err != nil {
		return nil, err
	}
	code, err := a.record("data.pkl")
	if err != nil {
		return nil, err
	}
	if len(code) > maxPickle {
		return nil, fmt.Errorf("its pickle has %d bytes, but at most %d can be read", len(code), maxPickle)
	}
	b := builder{storage: a.storage}
	value, _, err := pickle.Read(code, b.options(opaque))
	if err != nil {
		return nil, err
	}
	return value, b.check()
}

// checkByteOrder returns an error if the elements are big-endian. A missing record means that they
// are little-endian.
func (a *archive) checkByteOrder() error {
	if a.records[a.top+"byteorder"] == nil {
		return nil
	}
	order, err := a.record("byteorder")
	if err != nil {
		return err
	}
	if string(order) != "little" {
		return fmt.Errorf("its numbers are in %.10q byte order: save it again on a little-endian machine",
			order[:min(len(order), maxByteOrder)])
	}
	return nil
}

// record returns the contents of a record, which share the memory of the file. It verifies the
// record's checksum. Records that are larger in total than the file, because they overlap, are an
// error, so the time for all checksums is proportional to the size of the file.
func (a *archive) record(name string) ([]byte, error) {
	name = a.top + name
	record := a.records[name]
	if record == nil {
		return nil, fmt.Errorf("it is a damaged archive: the record %.100q is missing", name)
	}
	if record.Method != zip.Store {
		return nil, fmt.Errorf("its record %.100q is compressed, which torch.save never does: "+
			"load it with PyTorch and save it again", name)
	}
	from, err := record.DataOffset()
	if err != nil {
		return nil, fmt.Errorf("it is a damaged archive: the record %.100q: %w", name, err)
	}
	if size := record.UncompressedSize64; from < 0 || from > int64(len(a.contents)) ||
		size > uint64(int64(len(a.contents))-from) || size != record.CompressedSize64 {
		return nil, fmt.Errorf("it is a damaged archive: the record %.100q lies outside the file", name)
	}
	if a.read += record.UncompressedSize64; a.read > uint64(len(a.contents)) {
		return nil, errors.New("it is a damaged archive: its records overlap")
	}
	data := a.contents[from:][:record.UncompressedSize64]
	// PyTorch writes 0 if it computes no checksums.
	if sum := crc32.ChecksumIEEE(data); record.CRC32 != 0 && record.CRC32 != sum {
		return nil, fmt.Errorf("it is damaged: the checksum of its record %.100q is %08x, not %08x: "+
			"restore it from a copy", name, sum, record.CRC32)
	}
	return data, nil
}

// storage returns the storage with the given key. Several tensors may share it.
func (a *archive) storage(key string, kind Type, count int64) (*storage, error) {
	if s := a.storages[key]; s != nil {
		return s, s.sameAs(kind, count)
	}
	data, err := a.record("data/" + key)
	if err != nil {
		return nil, err
	}
	s := &storage{kind: kind, count: count}
	a.storages[key] = s
	return s, s.fill(key, data)
}

// legacyMagic is the first value of a file in the old format: 0x1950a86a20f9469cfc6c.
var legacyMagic = new(big.Int).SetBytes([]byte{0x19, 0x50, 0xa8, 0x6a, 0x20, 0xf9, 0x46, 0x9c, 0xfc, 0x6c})

const legacyProtocol = 1001

// readLegacy reads the old format. A file in this format begins with the pickles of the magic
// number, the protocol, a dictionary that describes the system, the value and the list of storage
// keys. For each key, the number of elements follows as a 64-bit integer, and then the elements.
func readLegacy(contents []byte, opaque func(pickle.Global) bool) (any, error) {
	rest := contents
	storages := map[string]*storage{}
	b := builder{storage: func(key string, kind Type, count int64) (*storage, error) {
		if s := storages[key]; s != nil {
			return s, s.sameAs(kind, count)
		}
		storages[key] = &storage{kind: kind, count: count}
		return storages[key], nil
	}}
	next := func() (any, error) {
		value, n, err := pickle.Read(rest[:min(len(rest), maxPickle)], b.options(opaque))
		rest = rest[n:]
		return value, err
	}

	magic, err := next()
	if n, ok := magic.(*big.Int); err != nil || !ok || n.Cmp(legacyMagic) != 0 {
		return nil, errors.New("it is a pickle, but not a file of torch.save")
	}
	if protocol, err := next(); err != nil || protocol != int64(legacyProtocol) {
		return nil, fmt.Errorf("its version of torch.save is unknown: load it with a current PyTorch and save it again")
	}
	system, err := next()
	if err != nil {
		return nil, err
	}
	if d, _ := system.(*pickle.Dict); d != nil {
		if little, ok := d.Get("little_endian"); ok && little != true {
			return nil, errors.New("its numbers are big-endian: save it again on a little-endian machine")
		}
	}
	value, err := next()
	if err != nil {
		return nil, err
	}
	keys, err := next()
	if err != nil {
		return nil, err
	}
	list, ok := keys.(*pickle.List)
	if !ok {
		return nil, errors.New("it is damaged: the list of its storages is missing")
	}
	for _, k := range list.Items {
		key, _ := k.(string)
		s := storages[key]
		if s == nil || s.data != nil {
			name, _ := pickle.Text(k)
			return nil, fmt.Errorf("it is damaged: no tensor uses its storage %.100q", name)
		}
		if len(rest) < 8 {
			return nil, fmt.Errorf("it is truncated: storage %.100q is missing", key)
		}
		count := binary.LittleEndian.Uint64(rest)
		if rest = rest[8:]; count != uint64(s.count) {
			return nil, fmt.Errorf("it is damaged: storage %.100q has %d elements in one place and %d in another",
				key, s.count, count)
		}
		size := min(uint64(s.kind.size())*count, uint64(len(rest))) // fill reports a shorter storage
		if err := s.fill(key, rest[:size]); err != nil {
			return nil, err
		}
		rest = rest[size:]
	}
	return value, b.check()
}
