package safetensors

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"unicode/utf8"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/fault"
)

// Float32 is a tensor to write. Values are in row-major order.
type Float32 struct {
	Name   string
	Shape  []int
	Values []float32
}

// WriteFile atomically writes the output of Write to the file at path, and replaces an existing
// file. After an error or a cancelled context, the old file is unchanged.
func WriteFile(ctx context.Context, path string, metadata map[string]string, tensors ...Float32) error {
	return atomicfile.Write(path, func(w io.Writer) error {
		return Write(atomicfile.Stoppable(ctx, w), metadata, tensors...)
	})
}

// Write writes the contents of a file: the header, then the tensors' data in the given order. The
// same arguments give the same bytes. The header is padded so that the data begins at a multiple of
// 8 bytes.
func Write(w io.Writer, metadata map[string]string, tensors ...Float32) (err error) {
	defer fault.Guard().Catch(&err) // tensors may be mapped
	header, err := encodeHeader(metadata, tensors)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	const chunk = 1 << 16 // elements
	buffer := make([]byte, 0, 4*chunk)
	for _, t := range tensors {
		for values := t.Values; len(values) > 0; {
			n := min(chunk, len(values))
			buffer = buffer[:0]
			for _, v := range values[:n] {
				buffer = binary.LittleEndian.AppendUint32(buffer, math.Float32bits(v))
			}
			if _, err := w.Write(buffer); err != nil {
				return err
			}
			values = values[n:]
		}
	}
	return nil
}

// encodeHeader returns the beginning of a file: everything before the data.
func encodeHeader(metadata map[string]string, tensors []Float32) ([]byte, error) {
	if len(metadata) >= maxEntries || len(tensors) >= maxEntries {
		return nil, fmt.Errorf("%d tensors and %d metadata entries are too many for one file: "+
			"at most %d of each are allowed", len(tensors), len(metadata), maxEntries-1)
	}
	for key, value := range metadata {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return nil, fmt.Errorf("metadata entry %.80q is not valid UTF-8", key)
		}
	}
	b := bytes.NewBuffer(make([]byte, prefixSize)) // the length is filled in below
	b.WriteByte('{')
	if len(metadata) > 0 {
		writeMember(b, metadataKey, metadata) // sorted by key
	}
	names := map[string]bool{metadataKey: true}
	var begin int64
	for _, t := range tensors {
		if names[t.Name] || !utf8.ValidString(t.Name) {
			return nil, fmt.Errorf("no tensor can be named %.80q: the name is taken or not valid UTF-8", t.Name)
		}
		names[t.Name] = true
		if !fits(t) {
			return nil, fmt.Errorf("the number of values of tensor %.80q is %d, which does not match the shape %v",
				t.Name, len(t.Values), t.Shape)
		}
		end := begin + 4*int64(len(t.Values))
		writeMember(b, t.Name, struct {
			DType   string   `json:"dtype"`
			Shape   []int    `json:"shape"`
			Offsets [2]int64 `json:"data_offsets"`
		}{"F32", append([]int{}, t.Shape...), [2]int64{begin, end}}) // never a nil shape: it would be null
		begin = end
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	size := b.Len() - prefixSize
	if size > maxHeaderSize {
		return nil, fmt.Errorf("names and metadata need a header of %d bytes, but at most %d are allowed",
			size, maxHeaderSize)
	}
	binary.LittleEndian.PutUint64(b.Bytes(), uint64(size))
	return b.Bytes(), nil
}

// writeMember appends a member to the JSON object at the end of b.
func writeMember(b *bytes.Buffer, key string, value any) {
	object, err := json.Marshal(map[string]any{key: value})
	if err != nil {
		panic(err) // only strings, numbers and lists of them occur
	}
	if b.Len() > prefixSize+1 {
		b.WriteByte(',')
	}
	b.Write(object[1 : len(object)-1])
}

// fits reports whether the number of values matches the shape.
func fits(t Float32) bool {
	if len(t.Shape) > maxRank {
		return false
	}
	shape := make([]int64, len(t.Shape))
	for i, extent := range t.Shape {
		if extent < 0 {
			return false
		}
		shape[i] = int64(extent)
	}
	size, ok := byteSize(shape, elementBits["F32"])
	return ok && size == 4*int64(len(t.Values))
}
