package npy

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// encode builds a file by hand, with NumPy's padding.
func encode(version byte, header string, data ...float32) []byte {
	file := append([]byte("\x93NUMPY"), version, 0)
	width := 2
	if version > 1 {
		width = 4
	}
	for (len(file)+width+len(header)+1)%64 != 0 {
		header += " "
	}
	header += "\n"
	if version == 1 {
		file = binary.LittleEndian.AppendUint16(file, uint16(len(header)))
	} else {
		file = binary.LittleEndian.AppendUint32(file, uint32(len(header)))
	}
	return elements(append(file, header...), data...)
}

func elements(file []byte, data ...float32) []byte {
	for _, v := range data {
		file = binary.LittleEndian.AppendUint32(file, math.Float32bits(v))
	}
	return file
}

func writeTemp(t testing.TB, contents []byte) string {
	path := filepath.Join(t.TempDir(), "array.npy")
	require.NoError(t, os.WriteFile(path, contents, 0o600))
	return path
}

const good = `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`

func TestOpen(t *testing.T) {
	values := []float32{1, -2.5, 0, float32(math.Inf(1)), 5, math.SmallestNonzeroFloat32}
	for name, file := range map[string][]byte{
		"version 1":        encode(1, good, values...),
		"version 2":        encode(2, good, values...),
		"version 3":        encode(3, good, values...),
		"another order":    encode(1, `{"shape": (2,3), 'fortran_order':False,'descr':'<f4'}`, values...),
		"Python 2":         encode(1, `{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }`, values...),
		"data not aligned": elements(append([]byte("\x93NUMPY\x01\x00\x3b\x00"), good...), values...),
	} {
		f, err := Open(writeTemp(t, file))
		require.NoError(t, err, name)
		assert.Equal(t, []int{2, 3}, f.Shape())
		assert.Equal(t, values, f.Float32(), name)
		assert.Equal(t, file, f.Bytes())
		require.NoError(t, f.Close())
		require.NoError(t, f.Close(), "a second time")
	}
	for shape, want := range map[string][]int{"()": {}, "(0,)": {0}, "(3, 0, 2)": {3, 0, 2}, "(2,)": {2}} {
		n := map[string]int{"()": 1, "(2,)": 2}[shape]
		f, err := Open(writeTemp(t,
			encode(1, `{'descr': '<f4', 'fortran_order': False, 'shape': `+shape+`}`, values[:n]...)))
		require.NoError(t, err, shape)
		assert.Equal(t, want, f.Shape())
		assert.Equal(t, values[:n], f.Float32())
		require.NoError(t, f.Close())
	}
}

// Elements of other types are converted to float32.
func TestOpenConverts(t *testing.T) {
	for descr, c := range map[string]struct {
		name string
		data []byte
		want []float32
	}{
		">f4": {"big-endian float32", []byte{0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0}, []float32{1, -2.5}},
		"<f8": {"float64", binary.LittleEndian.AppendUint64(
			binary.LittleEndian.AppendUint64(nil, math.Float64bits(0.1)), math.Float64bits(1+0x1p-24)),
			[]float32{0.1, 1}}, // 1 + 2⁻²⁴ is a tie, which rounds to even
		">f8": {"big-endian float64", binary.BigEndian.AppendUint64(
			binary.BigEndian.AppendUint64(nil, math.Float64bits(-3)), math.Float64bits(1e300)),
			[]float32{-3, float32(math.Inf(1))}},
		"<f2": {"float16", []byte{0, 0x3c, 0xff, 0x7b}, []float32{1, 65504}},
		">f2": {"big-endian float16", []byte{0x80, 0x01, 0x35, 0x55}, []float32{-0x1p-24, 0.333251953125}},
	} {
		header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (2,), }", descr)
		f, err := Open(writeTemp(t, append(encode(1, header), c.data...)))
		require.NoError(t, err, descr)
		assert.Equal(t, c.name, f.Type())
		assert.Equal(t, c.want, f.Float32(), descr)
		require.NoError(t, f.Close())
	}
}

func TestOpenIntegers(t *testing.T) {
	const header = `{'descr': '%s', 'fortran_order': False, 'shape': (2, 2), }`
	values := []int64{7, -1, 1 << 31, 0}
	narrow := []int32{7, -1, 1 << 30, 0}
	for descr, c := range map[string]struct {
		data any
		want []int64
	}{"<i8": {values, values}, "<i4": {narrow, []int64{7, -1, 1 << 30, 0}}} {
		file, err := binary.Append(encode(1, fmt.Sprintf(header, descr)), binary.LittleEndian, c.data)
		require.NoError(t, err)
		f, err := OpenIntegers(writeTemp(t, file))
		require.NoError(t, err)
		assert.Equal(t, []int{2, 2}, f.Shape())
		for i, want := range c.want {
			assert.Equal(t, want, f.Integer(i))
		}
		require.NoError(t, f.Close())
		_, err = OpenIntegers(writeTemp(t, file[:len(file)-1]))
		assert.ErrorContains(t, err, "of shape [2 2] needs")
	}
	_, err := OpenIntegers(writeTemp(t, encode(1, good, 1, 2, 3, 4, 5, 6)))
	assert.ErrorContains(t, err, `type "<f4", but only int64 and int32 can be read: save it again after astype('<i8')`)

	integers := encode(1, `{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }`, 1)
	f, err := OpenIntegers(writeTemp(t, integers))
	require.NoError(t, err)
	defer f.Close()
	assert.PanicsWithValue(t, "npy: Float32 of a file of integers", func() { f.Float32() })
}

// Open returns the shape and elements of a file that WriteFile wrote. A cancelled WriteFile leaves
// the old file.
func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "array.npy")
	values := make([]float32, 3*(1<<18)+3)
	for i := range values {
		values[i] = float32(i)
	}
	for _, shape := range [][]int{{3, 1<<18 + 1}, {len(values)}, {1, 3, 1, 1<<18 + 1}} {
		require.NoError(t, WriteFile(t.Context(), path, shape, values))
		f, err := Open(path)
		require.NoError(t, err)
		assert.Equal(t, shape, f.Shape())
		assert.Zero(t, (len(f.Bytes())-len(f.data))%64, "the elements are aligned")
		require.Equal(t, values, f.Float32())
		require.NoError(t, f.Close())
	}
	require.NoError(t, WriteFile(t.Context(), path, nil, values[:1]))
	f, err := Open(path)
	require.NoError(t, err)
	assert.Empty(t, f.Shape())
	require.NoError(t, f.Close())

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, WriteFile(cancelled, path, []int{len(values)}, values), context.Canceled)
	for _, shape := range [][]int{{2}, {1, 0}, {-1, -1}, {math.MaxInt, math.MaxInt}, make([]int, maxRank+1)} {
		assert.ErrorContains(t, WriteFile(t.Context(), path, shape, values[:1]),
			fmt.Sprintf("the number of values is 1, which does not match the shape %v", shape))
	}
	require.NoError(t, WriteFile(t.Context(), path+"0", []int{3, 0}, nil))
	f, err = Open(path)
	require.NoError(t, err, "the former file is unchanged")
	require.NoError(t, f.Close())
}

func TestOpenRefuses(t *testing.T) {
	head := func(descr, order, shape string) string {
		return fmt.Sprintf("{'descr': %s, 'fortran_order': %s, 'shape': %s, }", descr, order, shape)
	}
	for _, c := range []struct{ name, header, message string }{
		{"integers", head("'<i4'", "False", "(2, 3)"),
			`its elements have type "<i4", but only float32, float64 and float16 can be read: ` +
				`save it again after astype('<f4')`},
		{"native", head("'=f4'", "False", "(2, 3)"), `type "=f4"`},
		{"objects", head("'|O'", "False", "(2, 3)"), `type "|O"`},
		{"records", head("[('x', '<f4')]", "False", "(2, 3)"), "records"},
		{"Fortran", head("'<f4'", "True", "(2, 3)"), "Fortran order"},
		{"too large", head("'<f4'", "False", "(2, 4)"),
			"float32 of shape [2 4] needs 32 bytes, but 24 follow the header"},
		{"short float64", head("'>f8'", "False", "(2, 3)"),
			"big-endian float64 of shape [2 3] needs 48 bytes, but 24 follow the header"},
		{"long float16", head("'<f2'", "False", "(2, 3)"), "float16 of shape [2 3] needs 12 bytes, but 24 follow"},
		{"too small", head("'<f4'", "False", "(2, 2)"), "float32 of shape [2 2] needs 16 bytes, but 24 follow"},
		{"overflow", head("'<f4'", "False", "(4294967296, 4294967296)"), "impossible"},
		{"extent beyond int", head("'<f4'", "False", "(9223372036854775808,)"),
			"the impossible extent 9223372036854775808"},
		{"negative extent", head("'<f4'", "False", "(-2, 3)"), "where an extent should be"},
		{"not a tuple", head("'<f4'", "False", "6"), `where "(" should be`},
		{"a number in parentheses", head("'<f4'", "False", "(6)"), `where "," should be`},
		{"many extents", head("'<f4'", "False", "("+strings.Repeat("1,", 65)+")"), "more than 64 extents"},
		{"order not boolean", head("'<f4'", "0", "(2, 3)"), "where True or False should be"},
		{"no descr", `{'fortran_order': False, 'shape': (2, 3)}`, `lacks "descr"`},
		{"no order", `{'descr': '<f4', 'shape': (2, 3)}`, `lacks "fortran_order"`},
		{"no shape", `{'descr': '<f4', 'fortran_order': False}`, `lacks "shape"`},
		{"twice", `{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}`, `has "descr" twice`},
		{"another key", `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'x': 1}`, `unknown key "x"`},
		{"code", `__import__('os').system('true')`, `where "{" should be`},
		{"escape", `{'de\x73cr': '<f4', 'fortran_order': False, 'shape': (2, 3)}`, "where a name in quotes should be"},
		{"rest", good + "}", "where the end should be"},
		{"empty", "", `where "{" should be`},
		{"no colon", `{'descr' '<f4'}`, `where ":" should be`},
		{"no comma", `{'descr': '<f4' 'fortran_order': False}`, `where "}" should be`},
	} {
		path := writeTemp(t, encode(1, c.header, 1, 2, 3, 4, 5, 6))
		f, err := Open(path)
		require.ErrorContains(t, err, c.message, c.name)
		assert.Nil(t, f)
		assert.True(t, strings.HasPrefix(err.Error(), path+": "), err)
		assert.NotContains(t, err.Error(), "\n")
		assert.Less(t, len(err.Error()), 400)
	}
	for name, c := range map[string]struct {
		file    []byte
		message string
	}{
		"nothing":      {nil, "not a .npy file"},
		"another file": {[]byte("PK\x03\x04 an archive of many arrays"), "not a .npy file"},
		"version 4":    {encode(4, good), "version 4 of the .npy format is unknown"},
		"long header":  {append([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"), good...), "more than 65536 bytes"},
	} {
		_, err := Open(writeTemp(t, c.file))
		assert.ErrorContains(t, err, c.message, name)
	}
	_, err := Open(filepath.Join(t.TempDir(), "absent.npy"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = Open(t.TempDir())
	assert.ErrorContains(t, err, "not a regular file")
}

func TestTruncatedAtEveryByte(t *testing.T) {
	for version := byte(1); version <= 3; version++ {
		whole := encode(version, good, 1, 2, 3, 4, 5, 6)
		_, err := parse(whole, false)
		require.NoError(t, err)
		for n := range whole {
			_, err := parse(whole[:n], false)
			require.Error(t, err, "the first %d of %d bytes", n, len(whole))
		}
		_, err = parse(append(whole, 0), false)
		require.ErrorContains(t, err, "25 follow")
	}
}

// FuzzParse checks that parse, given any file, returns an error or elements that fit the shape.
func FuzzParse(f *testing.F) {
	f.Add(encode(1, good, 1, 2, 3, 4, 5, 6))
	f.Add(encode(3, `{"shape": (2L,), 'fortran_order':False,'descr':'<f4'}`, 1, 2))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, contents []byte) {
		file, err := parse(contents, false)
		if err != nil {
			require.Nil(t, file)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		n := 1
		for _, extent := range file.Shape() {
			n *= extent
		}
		require.Len(t, file.Float32(), n)
	})
}
