package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// encode builds a file by hand: the header's length, the unchanged header, and the data.
func encode(header string, data ...float32) []byte {
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	file = append(file, header...)
	for _, v := range data {
		file = binary.LittleEndian.AppendUint32(file, math.Float32bits(v))
	}
	return file
}

func writeTemp(t *testing.T, contents []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.safetensors")
	require.NoError(t, os.WriteFile(path, contents, 0o600))
	return path
}

func TestOpenReadsWhatIsThere(t *testing.T) {
	header := `{"b":{"dtype":"F32","shape":[2,2],"data_offsets":[4,20]},
		"__metadata__":{"format":"pt","note":"\u00e9 <&>"},
		"none":{"dtype":"F32","shape":[3,0],"data_offsets":[20,20]},
		"a":{"data_offsets":[0,4],"shape":[],"dtype":"F32"},
		"half":{"dtype":"BF16","shape":[2],"data_offsets":[20,24]}}  `
	values := []float32{7, 1.5, -2, float32(math.Inf(1)), math.SmallestNonzeroFloat32, 0}
	// The headers put the data at every offset modulo 4, so it is aligned in one case and copied in
	// the other three.
	for pad := range 4 {
		f, err := Open(writeTemp(t, encode(header+strings.Repeat(" ", pad), values...)))
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"format": "pt", "note": "é <&>"}, f.Metadata())
		var names []string
		for _, tensor := range f.Tensors() {
			names = append(names, fmt.Sprint(tensor.Name, tensor.DType, tensor.Shape))
		}
		assert.Equal(t, []string{"aF32[]", "bF32[2 2]", "noneF32[3 0]", "halfBF16[2]"}, names,
			"in the order of their data")
		for name, want := range map[string][]float32{"a": values[:1], "b": values[1:5], "none": {}} {
			got, err := f.Float32(name)
			require.NoError(t, err)
			assert.Equal(t, want, got, name)
		}
		_, err = f.Float32("half")
		assert.ErrorContains(t, err, `tensor "half" is BF16, but only F32 can be read: convert it to float32`)
		_, err = f.Float32("c")
		assert.ErrorContains(t, err, `has no tensor "c"`)
		require.NoError(t, f.Close())
		require.NoError(t, f.Close(), "a second time")
	}
}

func TestFloats(t *testing.T) {
	header := `{"double":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},
		"single":{"dtype":"F32","shape":[1],"data_offsets":[16,20]},
		"half":{"dtype":"F16","shape":[2],"data_offsets":[20,24]},
		"brain":{"dtype":"BF16","shape":[2],"data_offsets":[24,28]},
		"integer":{"dtype":"I32","shape":[1],"data_offsets":[28,32]}}`
	data := binary.LittleEndian.AppendUint64(nil, math.Float64bits(0.1))
	data = binary.LittleEndian.AppendUint64(data, math.Float64bits(1e300)) // beyond float32
	data = binary.LittleEndian.AppendUint32(data, math.Float32bits(-3.5))
	data = append(data, 0x01, 0x00, 0x00, 0xfc) // the smallest number and −∞
	data = append(data, 0xc0, 0x3f, 0x80, 0xff) // 1.5 and −∞
	data = append(data, 1, 0, 0, 0)
	contents := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	f, err := Open(writeTemp(t, append(contents, data...)))
	require.NoError(t, err)
	defer f.Close()
	infinity := float32(math.Inf(1))
	for name, want := range map[string]struct {
		kind   string
		values []float32
	}{
		"double": {"float64", []float32{0.1, infinity}}, "single": {"float32", []float32{-3.5}},
		"half": {"float16", []float32{0x1p-24, -infinity}}, "brain": {"bfloat16", []float32{1.5, -infinity}},
	} {
		values, kind, err := f.Floats(name)
		require.NoError(t, err)
		assert.Equal(t, want.kind, kind)
		assert.Equal(t, want.values, values(), name)
	}
	_, _, err = f.Floats("integer")
	assert.ErrorContains(t, err, `tensor "integer" is I32, but only F32, F64, F16 and BF16 can be read: convert it`)
	_, _, err = f.Floats("none")
	assert.ErrorContains(t, err, `has no tensor "none"`)
}

func TestFloat32IsTheFileItself(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("this machine is big-endian: every tensor is a converted copy")
	}
	f, err := Open(writeTemp(t, encode(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  `, 1, 2)))
	require.NoError(t, err)
	defer f.Close()
	allocations := testing.AllocsPerRun(10, func() { _, _ = f.Float32("a") })
	assert.Zero(t, allocations)
}

func TestHostileHeaders(t *testing.T) {
	const a = `"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}`
	tensor := func(dtype, shape, offsets string) string {
		return fmt.Sprintf(`{"a":{"dtype":%s,"shape":%s,"data_offsets":%s}}`, dtype, shape, offsets)
	}
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for _, c := range []struct{ name, header, message string }{
		{"empty", ``, "does not begin with {"},
		{"leading space", ` {` + a + `}`, "does not begin with {"},
		{"list", `[1]`, "does not begin with {"},
		{"null", `null`, "does not begin with {"},
		{"not closed", `{` + a, "not valid JSON"},
		{"trailing data", `{` + a + `}{}`, "not valid JSON"},
		{"trailing zero bytes", `{` + a + "}\x00\x00", "not valid JSON"},
		{"trailing comma", `{` + a + `,}`, "not valid JSON"},
		{"not UTF-8", "{\"\xff\":1}", "not valid UTF-8"},
		{"deep", `{"a":` + strings.Repeat(`[`, 1_000_000) + strings.Repeat(`]`, 1_000_000) + `}`, "not valid JSON"},
		{"duplicate tensor", `{` + a + `,` + a + `}`, `the header has "a" twice`},
		{"duplicate through an escape", `{` + a + `,"\u0061":1}`, `the header has "a" twice`},
		{"duplicate metadata", `{"__metadata__":{},"__metadata__":{},` + a + `}`, `has "__metadata__" twice`},
		{"duplicate metadata key", `{"__metadata__":{"x":"1","x":"2"},` + a + `}`, `the metadata has "x" twice`},
		{"duplicate property", `{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}`,
			`tensor "a" has "dtype" twice`},
		{"metadata not text", `{"__metadata__":{"x":1},` + a + `}`, `metadata entry "x" must be a string, not 1`},
		{"metadata nested", `{"__metadata__":{"x":{}},` + a + `}`, `metadata entry "x" must be a string, not {`},
		{"metadata null", `{"__metadata__":null,` + a + `}`, `the metadata must be an object, not null`},
		{"tensor not an object", `{"a":[]}`, `tensor "a" must be an object, not [`},
		{"unknown property", `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"Shape":[2]}}`,
			`unknown property "Shape"`},
		{"no dtype", `{"a":{"shape":[2],"data_offsets":[0,8]}}`, "lacks dtype"},
		{"no shape", `{"a":{"dtype":"F32","data_offsets":[0,8]}}`, "lacks dtype, shape"},
		{"no offsets", `{"a":{"dtype":"F32","shape":[2]}}`, "lacks dtype, shape or data_offsets"},
		{"unknown dtype", tensor(`"F33"`, `[2]`, `[0,8]`), `tensor "a" has the unknown dtype "F33"`},
		{"dtype in lower case", tensor(`"f32"`, `[2]`, `[0,8]`), "unknown dtype"},
		{"dtype a number", tensor(`32`, `[2]`, `[0,8]`), `dtype of tensor "a" must be a string`},
		{"wrong dtype", tensor(`"F64"`, `[2]`, `[0,8]`), `has 8 bytes, but F64 of shape [2] needs 16`},
		{"shape a number", tensor(`"F32"`, `2`, `[0,8]`), `shape of tensor "a" must be a list of integers, not 2`},
		{"shape null", tensor(`"F32"`, `null`, `[0,8]`), "must be a list of integers, not null"},
		{"shape of text", tensor(`"F32"`, `["2"]`, `[0,8]`), "must be a list of integers, not 2"},
		{"shape nested", tensor(`"F32"`, `[[2]]`, `[0,8]`), "must be a list of integers, not ["},
		{"negative extent", tensor(`"F32"`, `[-2]`, `[0,8]`), "not -2"},
		{"two negative extents", tensor(`"F32"`, `[-1,-2]`, `[0,8]`), "not -1"},
		{"fractional extent", tensor(`"F32"`, `[2.0]`, `[0,8]`), "not 2.0"},
		{"extent with exponent", tensor(`"F32"`, `[2e0]`, `[0,8]`), "not 2e0"},
		{"extent beyond int", tensor(`"F32"`, `[9223372036854775808]`, `[0,8]`), "not 9223372036854775808"},
		{"extent of a thousand digits", tensor(`"F32"`, `[`+strings.Repeat("9", 1000)+`]`, `[0,8]`), "not 999"},
		{"overflowing product", tensor(`"F32"`, `[4294967296,4294967296]`, `[0,8]`), "is impossible"},
		{"product that wraps to 8", tensor(`"F32"`, `[2305843009213693953,2]`, `[0,8]`), "is impossible"},
		{"overflow before a zero", tensor(`"F32"`, `[4611686018427387904,4611686018427387904,0]`, `[0,0]`),
			"is impossible"},
		{"half a byte", tensor(`"F4"`, `[3]`, `[0,1]`), "is impossible"},
		{"many extents", tensor(`"F32"`, `[`+strings.Repeat("1,", 32)+`2]`, `[0,8]`), "more than 32 numbers"},
		{"shape too small", tensor(`"F32"`, `[1]`, `[0,8]`), "has 8 bytes, but F32 of shape [1] needs 4"},
		{"shape too large", tensor(`"F32"`, `[3]`, `[0,8]`), "has 8 bytes, but F32 of shape [3] needs 12"},
		{"one offset", tensor(`"F32"`, `[2]`, `[8]`), "they must be its beginning and its end"},
		{"three offsets", tensor(`"F32"`, `[2]`, `[0,8,8]`), "they must be its beginning and its end"},
		{"offsets reversed", tensor(`"F32"`, `[2]`, `[8,0]`), "they must be its beginning and its end"},
		{"negative offset", tensor(`"F32"`, `[2]`, `[-8,0]`), "not -8"},
		{"end beyond the file", tensor(`"F32"`, `[3]`, `[0,12]`), "ends at byte 12 of the data, which has only 8"},
		{"far beyond the file", tensor(`"U8"`, `[9223372036854775807]`, `[0,9223372036854775807]`), "impossible"},
		{"wrapping end", tensor(`"F32"`, `[2]`, `[9223372036854775800,9223372036854775808]`),
			"not 9223372036854775808"},
		{"hole at the start", tensor(`"F32"`, `[1]`, `[4,8]`),
			`the data has 4 bytes before tensor "a" that no tensor uses`},
		{"bytes at the end", tensor(`"F32"`, `[1]`, `[0,4]`), "the file ends with 4 bytes that no tensor uses"},
		{"no tensor for the bytes", `{}`, "the file ends with 8 bytes that no tensor uses"},
		{"overlap", `{` + a + `,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, `tensors "a" and "b" overlap`},
		{"same place", `{` + a + `,"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`,
			`tensors "a" and "b" overlap`},
		{"hole", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[6],"data_offsets":[2,8]}}`, `the data has 1 byte before tensor "b"`},
		{"many tensors", `{` + many(70_000, `"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}`) + `}`,
			"more than 65536 entries"},
		{"much metadata", `{"__metadata__":{` + many(70_000, `"%d":""`) + `}}`,
			"the metadata has more than 65536 entries"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := writeTemp(t, encode(c.header, 1, 2))
			f, err := Open(path)
			require.ErrorContains(t, err, c.message)
			assert.Nil(t, f)
			assert.True(t, strings.HasPrefix(err.Error(), path+": "), err)
			assert.Less(t, len(err.Error()), 500, "an error in one sentence, for any file")
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestHostileLengths(t *testing.T) {
	good := encode(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  `, 1, 2)
	for length, message := range map[uint64]string{
		16<<20 + 1:            "header of 16777217 bytes, but at most 16777216 are allowed",
		16 << 20:              fmt.Sprintf("header of 16777216 bytes, but only %d follow the length", len(good)-8),
		math.MaxUint64:        "are allowed",
		math.MaxInt64 + 1:     "are allowed",
		uint64(len(good)) - 7: "follow the length",
		uint64(len(good)) - 8: "not valid",
		0:                     "does not begin with {",
		1:                     "not valid JSON",
	} {
		bad := bytes.Clone(good)
		binary.LittleEndian.PutUint64(bad, length)
		_, err := Open(writeTemp(t, bad))
		assert.ErrorContains(t, err, message, length)
	}
}

func TestTruncatedAtEveryByte(t *testing.T) {
	good := encode(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"e":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}}`, 1, 2)
	_, err := parse(good)
	require.NoError(t, err)
	for n := range good {
		_, err := Open(writeTemp(t, good[:n]))
		assert.Error(t, err, "the first %d of %d bytes", n, len(good))
	}
	begin := len(good) - 8
	for n := range good {
		f, err := OpenTruncated(writeTemp(t, good[:n]))
		if n < begin {
			assert.Error(t, err, "the header is cut off after %d bytes", n)
			continue
		}
		require.NoError(t, err)
		require.Len(t, f.Tensors(), 2)
		assert.Equal(t, []int{2}, f.Tensors()[0].Shape)
		_, err = f.Float32("a")
		assert.ErrorContains(t, err, `: tensor "a" is truncated`)
		require.NoError(t, f.Close())
	}
	_, err = parse(append(bytes.Clone(good), 0))
	assert.ErrorContains(t, err, "the file ends with 1 byte that no tensor uses")
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(filepath.Join(dir, "absent"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = Open(dir)
	assert.ErrorContains(t, err, "not a regular file")
	_, err = Open(os.DevNull)
	assert.ErrorContains(t, err, "not a regular file")
	_, err = Open(writeTemp(t, nil))
	assert.ErrorContains(t, err, "it has 0 bytes")

	if os.Geteuid() == 0 {
		t.Log("root can read everything: the unreadable file is not tested")
		return
	}
	path := writeTemp(t, encode(`{}`))
	require.NoError(t, os.Chmod(path, 0))
	_, err = Open(path)
	assert.ErrorIs(t, err, os.ErrPermission)
}

// drawTensors draws tensors of small shapes, including scalars and empty tensors.
func drawTensors(t *rapid.T) []Float32 {
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z.<é"\\]{0,6}`), 0, 5, rapid.ID).Draw(t, "names")
	tensors := make([]Float32, len(names))
	for i, name := range names {
		shape := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 3).Draw(t, "shape")
		n := 1
		for _, extent := range shape {
			n *= extent
		}
		bits := rapid.SliceOfN(rapid.Uint32(), n, n).Draw(t, "bits")
		values := make([]float32, n)
		for j, b := range bits {
			values[j] = math.Float32frombits(b)
		}
		tensors[i] = Float32{Name: name, Shape: shape, Values: values}
	}
	return tensors
}

func bitsOf(values []float32) []uint32 {
	bits := make([]uint32, len(values))
	for i, v := range values {
		bits[i] = math.Float32bits(v)
	}
	return bits
}

// TestWriteAgainstIndependentDecoder reads the output of Write with nothing but encoding/json and
// encoding/binary.
func TestWriteAgainstIndependentDecoder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tensors := drawTensors(t)
		metadata := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "metadata")
		var file, again bytes.Buffer
		require.NoError(t, Write(&file, metadata, tensors...))
		require.NoError(t, Write(&again, metadata, tensors...))
		require.Equal(t, file.Bytes(), again.Bytes(), "the same bytes every time")

		size := binary.LittleEndian.Uint64(file.Bytes())
		require.Zero(t, size%8)
		var header map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(file.Bytes()[8:8+size], &header))
		data := file.Bytes()[8+size:]
		if len(metadata) > 0 {
			var got map[string]string
			require.NoError(t, json.Unmarshal(header["__metadata__"], &got))
			require.Equal(t, metadata, got)
			delete(header, "__metadata__")
		}
		require.Len(t, header, len(tensors))
		var end int
		for _, want := range tensors {
			var got struct {
				DType   string `json:"dtype"`
				Shape   []int  `json:"shape"`
				Offsets []int  `json:"data_offsets"`
			}
			require.NoError(t, json.Unmarshal(header[want.Name], &got))
			require.Equal(t, "F32", got.DType)
			require.Equal(t, append([]int{}, want.Shape...), got.Shape)
			require.Equal(t, []int{end, end + 4*len(want.Values)}, got.Offsets, "in the order given")
			bits := make([]uint32, len(want.Values))
			require.NoError(t, binary.Read(bytes.NewReader(data[got.Offsets[0]:got.Offsets[1]]), binary.LittleEndian,
				bits))
			require.Equal(t, bitsOf(want.Values), bits)
			end = got.Offsets[1]
		}
		require.Len(t, data, end)
	})
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.safetensors")
	rapid.Check(t, func(t *rapid.T) {
		tensors := drawTensors(t)
		metadata := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "metadata")
		require.NoError(t, WriteFile(t.Context(), path, metadata, tensors...))
		f, err := Open(path)
		require.NoError(t, err)
		defer f.Close()
		require.Equal(t, metadata, f.Metadata())
		require.Len(t, f.Tensors(), len(tensors))
		for _, want := range tensors {
			got, err := f.Float32(want.Name)
			require.NoError(t, err)
			require.Equal(t, bitsOf(want.Values), bitsOf(got))
		}
	})
}

func TestRoundTripOfSeveralChunks(t *testing.T) {
	values := make([]float32, 200_001)
	for i := range values {
		values[i] = float32(i) * 1.25
	}
	path := filepath.Join(t.TempDir(), "file.safetensors")
	require.NoError(t, WriteFile(t.Context(), path, nil, Float32{"a", []int{200_001}, values},
		Float32{"b", nil, []float32{3}}))
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	got, err := f.Float32("a")
	require.NoError(t, err)
	assert.Equal(t, values, got)
}

func TestWriteRefuses(t *testing.T) {
	one := []float32{1}
	for name, c := range map[string]struct {
		metadata map[string]string
		tensors  []Float32
		message  string
	}{
		"too few values": {nil, []Float32{{"a", []int{2}, one}},
			`the number of values of tensor "a" is 1, which does not match the shape [2]`},
		"negative extents": {nil, []Float32{{"a", []int{-1, -1}, one}}, "does not match the shape"},
		"overflow":         {nil, []Float32{{"a", []int{1 << 31, 1 << 31, 1 << 2}, nil}}, "does not match the shape"},
		"name twice":       {nil, []Float32{{"a", nil, one}, {"a", nil, one}}, `no tensor can be named "a"`},
		"reserved name":    {nil, []Float32{{"__metadata__", nil, one}}, "no tensor can be named"},
		"name not UTF-8":   {nil, []Float32{{"\xff", nil, one}}, "not valid UTF-8"},
		"key not UTF-8":    {map[string]string{"\xff": ""}, nil, "not valid UTF-8"},
		"value not UTF-8":  {map[string]string{"x": "\xff"}, nil, `metadata entry "x" is not valid UTF-8`},
	} {
		t.Run(name, func(t *testing.T) {
			assert.ErrorContains(t, Write(io.Discard, c.metadata, c.tensors...), c.message)
			path := writeTemp(t, []byte("what was there"))
			assert.ErrorContains(t, WriteFile(t.Context(), path, c.metadata, c.tensors...), c.message)
			assertOnly(t, path, "what was there")
		})
	}
}

// assertOnly asserts that the file is the only one in its folder and has the given contents.
func assertOnly(t *testing.T, path, contents string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, entries, 1)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, contents, string(got))
}

// limited is a writer that accepts a limited number of bytes.
type limited struct{ room int }

func (d *limited) Write(p []byte) (int, error) {
	n := min(len(p), d.room)
	d.room -= n
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func TestWriteToAFullDisk(t *testing.T) {
	tensors := []Float32{{"a", []int{3}, []float32{1, 2, 3}}, {"b", []int{1}, []float32{4}}}
	var whole bytes.Buffer
	require.NoError(t, Write(&whole, nil, tensors...))
	for room := range whole.Len() {
		require.ErrorIs(t, Write(&limited{room}, nil, tensors...), syscall.ENOSPC, "room for %d bytes", room)
	}
	require.NoError(t, Write(&limited{whole.Len()}, nil, tensors...))
}

func TestWriteFileNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent", "file.safetensors")
	err := WriteFile(t.Context(), path, nil)
	assert.EqualError(t, err, "cannot write "+path+": no such file or directory")
	assert.True(t, errors.Is(err, os.ErrNotExist))
}

func TestWriteFileLeavesReadersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.safetensors")
	require.NoError(t, WriteFile(t.Context(), path, nil, Float32{"a", []int{2}, []float32{1, 2}}))
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, WriteFile(t.Context(), path, nil))
	got, err := f.Float32("a")
	require.NoError(t, err)
	assert.Equal(t, []float32{1, 2}, got, "an open file keeps its old contents")
}

// FuzzSafetensors checks that parse, given any bytes, returns an error, or tensors that lie within
// the data and do not change when they are written and read again.
func FuzzSafetensors(f *testing.F) {
	f.Add([]byte{})
	f.Add(encode(`{}`))
	f.Add(encode(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 1, 2))
	f.Add(encode(`{"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"b":{"dtype":"I8","shape":[2,2],"data_offsets":[4,8]}}`, 1, 2))
	f.Add(encode(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}}`, 1, 2))
	f.Fuzz(func(t *testing.T, contents []byte) {
		if cut, err := parseTruncated(contents); err == nil {
			for _, tensor := range cut.Tensors() { // must not panic
				_, _ = cut.Float32(tensor.Name)
				if values, _, err := cut.Floats(tensor.Name); err == nil {
					_ = values()
				}
			}
		}
		file, err := parse(contents)
		if err != nil {
			return
		}
		var tensors []Float32
		total := 0
		for _, tensor := range file.Tensors() {
			total += int(tensor.end - tensor.begin)
			values, err := file.Float32(tensor.Name)
			if tensor.DType != "F32" {
				require.Error(t, err)
				continue
			}
			require.NoError(t, err)
			tensors = append(tensors, Float32{tensor.Name, tensor.Shape, values})
		}
		require.Equal(t, len(file.data), total)
		var again bytes.Buffer
		require.NoError(t, Write(&again, file.Metadata(), tensors...))
		second, err := parse(again.Bytes())
		require.NoError(t, err)
		require.Equal(t, file.Metadata(), second.Metadata())
		require.Len(t, second.Tensors(), len(tensors))
		for _, want := range tensors {
			got, err := second.Float32(want.Name)
			require.NoError(t, err)
			require.Equal(t, bitsOf(want.Values), bitsOf(got))
		}
	})
}
