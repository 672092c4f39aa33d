package torch_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fixture"
	"github.com/mquine/mquine/model/checkpoint/npy"
	"github.com/mquine/mquine/model/checkpoint/pickle"
	"github.com/mquine/mquine/model/checkpoint/torch"
)

// saved describes a tensor in a test file.
type saved struct {
	name, class, key string
	count            int
	offset           int
	shape, stride    []int
}

// stateDict returns the pickle of a dictionary of tensors.
func stateDict(tensors ...saved) []byte {
	var p bytes.Buffer
	text := func(s string) {
		p.WriteByte('X')
		binary.Write(&p, binary.LittleEndian, uint32(len(s)))
		p.WriteString(s)
	}
	number := func(n int) { p.WriteString("\x8a\x08"); binary.Write(&p, binary.LittleEndian, int64(n)) }
	tuple := func(list []int) {
		p.WriteByte('(')
		for _, n := range list {
			number(n)
		}
		p.WriteByte('t')
	}
	p.WriteString("\x80\x02}(")
	for _, s := range tensors {
		text(s.name)
		p.WriteString("ctorch._utils\n_rebuild_tensor_v2\n((")
		text("storage")
		fmt.Fprintf(&p, "ctorch\n%s\n", s.class)
		text(s.key)
		text("cpu")
		number(s.count)
		p.WriteString("tQ")
		number(s.offset)
		tuple(s.shape)
		tuple(s.stride)
		p.WriteString("\x89}tR")
	}
	p.WriteString("u.")
	return p.Bytes()
}

// archiveOf returns a zip archive of the records.
func archiveOf(t *testing.T, method uint16, records ...[2]string) []byte {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, r := range records {
		w, err := z.CreateHeader(&zip.FileHeader{Name: r[0], Method: method})
		require.NoError(t, err)
		_, err = w.Write([]byte(r[1]))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return out.Bytes()
}

// legacyOf returns a file in the old format with the pickle and the storages' bytes.
func legacyOf(code []byte, elements map[string]int, storages ...[2]string) []byte {
	var out bytes.Buffer
	out.WriteString("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.") // the magic number
	out.WriteString("\x80\x02M\xe9\x03.")                                        // protocol 1001
	out.WriteString("\x80\x02}(X\x0d\x00\x00\x00little_endian\x88u.")
	out.Write(code)
	out.WriteString("\x80\x02](")
	for _, s := range storages {
		out.WriteByte('X')
		binary.Write(&out, binary.LittleEndian, uint32(len(s[0])))
		out.WriteString(s[0])
	}
	out.WriteString("e.")
	for _, s := range storages {
		binary.Write(&out, binary.LittleEndian, int64(elements[s[0]]))
		out.WriteString(s[1])
	}
	return out.Bytes()
}

func open(t *testing.T, contents []byte) (*torch.File, error) {
	path := filepath.Join(t.TempDir(), "model.pt")
	require.NoError(t, os.WriteFile(path, contents, 0o644))
	f, err := torch.Open(path, nil)
	if err == nil {
		t.Cleanup(func() { require.NoError(t, f.Close()) })
	}
	return f, err
}

func bytesOf(values any) string {
	var out bytes.Buffer
	binary.Write(&out, binary.LittleEndian, values)
	return out.String()
}

func tensorOf(t *testing.T, f *torch.File, name string) *torch.Tensor {
	v, ok := f.Value.(*pickle.Dict).Get(name)
	require.True(t, ok, name)
	return v.(*torch.Tensor)
}

// The zip archive and the old format give the same tensors, for every element type and for tensors
// that are not contiguous.
func TestOpenTensors(t *testing.T) {
	storages := [][2]string{
		{"0", bytesOf([]float32{0, 1, 2, 3, 4, 5, 6, 7})},
		{"1", bytesOf([]float64{math.Pi, -1e-3})},
		{"2", bytesOf([]uint16{0x3c00, 0xc000, 0x0001, 0x8000, 0x7bff, 0x7c00, 0x03ff})}, // half
		{"3", bytesOf([]uint16{0x3f80, 0xc049})},                                         // bfloat16
		{"4", bytesOf([]int64{-3, 1 << 40})},
		{"5", bytesOf([]int32{-3, 7})}, {"6", bytesOf([]int16{-3, 7})}, {"7", bytesOf([]int8{-3, 7})},
		{"8", bytesOf([]uint8{253, 7})}, {"9", "\x01\x00"},
	}
	counts := map[string]int{"0": 8, "1": 2, "2": 7, "3": 2, "4": 2, "5": 2, "6": 2, "7": 2, "8": 2, "9": 2}
	code := stateDict(
		saved{"plain", "FloatStorage", "0", 8, 0, []int{2, 4}, []int{4, 1}},
		saved{"part", "FloatStorage", "0", 8, 2, []int{3}, []int{1}},
		saved{"transposed", "FloatStorage", "0", 8, 0, []int{4, 2}, []int{1, 4}},
		saved{"scalar", "FloatStorage", "0", 8, 7, []int{}, []int{}},
		saved{"empty", "FloatStorage", "0", 8, 8, []int{0, 5}, []int{5, 1}},
		saved{"ones", "FloatStorage", "0", 8, 1, []int{1, 3}, []int{99, 2}},
		saved{"double", "DoubleStorage", "1", 2, 0, []int{2}, []int{1}},
		saved{"half", "HalfStorage", "2", 7, 0, []int{7}, []int{1}},
		saved{"bfloat16", "BFloat16Storage", "3", 2, 0, []int{2}, []int{1}},
		saved{"long", "LongStorage", "4", 2, 0, []int{2}, []int{1}},
		saved{"int", "IntStorage", "5", 2, 0, []int{2}, []int{1}},
		saved{"short", "ShortStorage", "6", 2, 0, []int{2}, []int{1}},
		saved{"char", "CharStorage", "7", 2, 0, []int{2}, []int{1}},
		saved{"byte", "ByteStorage", "8", 2, 0, []int{2}, []int{1}},
		saved{"bool", "BoolStorage", "9", 2, 0, []int{2}, []int{1}},
	)
	records := [][2]string{{"m/data.pkl", string(code)}, {"m/version", "3\n"}, {"m/byteorder", "little"}}
	for _, s := range storages {
		records = append(records, [2]string{"m/data/" + s[0], s[1]})
	}
	for container, contents := range map[string][]byte{
		"zip":    archiveOf(t, zip.Store, records...),
		"legacy": legacyOf(code, counts, storages...),
	} {
		t.Run(container, func(t *testing.T) {
			f, err := open(t, contents)
			require.NoError(t, err)
			for name, want := range map[string][]float32{
				"plain": {0, 1, 2, 3, 4, 5, 6, 7}, "part": {2, 3, 4}, "transposed": {0, 4, 1, 5, 2, 6, 3, 7},
				"scalar": {7}, "empty": {}, "ones": {1, 3, 5}, "double": {math.Pi, -1e-3},
				"half": {
					1, -2, 0x1p-24, float32(math.Copysign(0, -1)), 65504, float32(math.Inf(1)), 1023 * 0x1p-24,
				},
				"bfloat16": {1, -3.140625}, "long": {-3, 1 << 40}, "int": {-3, 7}, "short": {-3, 7}, "char": {-3, 7},
				"byte": {253, 7}, "bool": {1, 0},
			} {
				got := tensorOf(t, f, name).Float32()
				require.Equal(t, want, got, name)
				for i := range want {
					require.Equal(t, math.Float32bits(want[i]), math.Float32bits(got[i]), name)
				}
			}
			require.Equal(t, torch.BFloat16, tensorOf(t, f, "bfloat16").Type)
			require.Equal(t, "bfloat16", torch.BFloat16.String())
			require.Equal(t, []int{4, 2}, tensorOf(t, f, "transposed").Shape)
		})
	}
}

// The tensors in the checkpoints of the RotatE repository and its forks equal the tables that the
// same tools saved as .npy files.
func TestOpenFixtures(t *testing.T) {
	fixtures := fixture.Root(t)
	for _, name := range []string{
		"rotate-repo-complex-umls", "rotate-repo-rotate-umls", "rotate-repo-transe-umls", "rotate-repo-distmult-umls",
		"hake-umls", "mode-umls", "house-umls", "ote-abs-umls", "ote-rotate-umls",
	} {
		dir := filepath.Join(fixtures, name)
		f, err := torch.Open(filepath.Join(dir, "checkpoint"), nil)
		require.NoError(t, err)
		defer f.Close()
		state, ok := f.Value.(*pickle.Dict).Get("model_state_dict")
		require.True(t, ok, name)
		for _, table := range []string{"entity_embedding", "relation_embedding"} {
			v, ok := state.(*pickle.Dict).Get(table)
			require.True(t, ok, name)
			want, err := npy.Open(filepath.Join(dir, table+".npy"))
			require.NoError(t, err)
			defer want.Close()
			require.Equal(t, want.Shape(), v.(*torch.Tensor).Shape, name)
			require.Equal(t, want.Float32(), v.(*torch.Tensor).Float32(), name)
		}
	}
}

func TestOpenDamaged(t *testing.T) {
	pickled := func(code string, more ...[2]string) []byte {
		return archiveOf(t, zip.Store, append([][2]string{{"m/data.pkl", code}}, more...)...)
	}
	plain := func(s saved) []byte {
		s.name = "x"
		if s.class == "" {
			s.class = "FloatStorage"
		}
		return pickled(string(stateDict(s)), [2]string{"m/data/0", bytesOf(make([]float32, 6))})
	}
	good := saved{key: "0", count: 6, shape: []int{2, 3}, stride: []int{3, 1}}
	with := func(change func(*saved)) []byte { s := good; change(&s); return plain(s) }
	shaped := func(offset int, shape, stride []int) []byte {
		return with(func(s *saved) { s.offset, s.shape, s.stride = offset, shape, stride })
	}
	_, err := open(t, plain(good))
	require.NoError(t, err)

	zeros := strings.Repeat("N0", 1000) + "N."
	for want, contents := range map[string][]byte{
		"it is not a file of torch.save":               []byte("hello"),
		"it is a damaged or truncated archive":         plain(good)[:300],
		"it has no record data.pkl":                    archiveOf(t, zip.Store, [2]string{"a", "b"}),
		"two records":                                  pickled("N.", [2]string{"m/data.pkl", "N."}),
		`in "big" byte order`:                          pickled("N.", [2]string{"m/byteorder", "big"}),
		`"m/data.pkl" is compressed`:                   archiveOf(t, zip.Deflate, [2]string{"m/data.pkl", zeros}),
		`record "m/data/7" is missing`:                 with(func(s *saved) { s.key = "7" }),
		`storage "0" of 7 float32 has 24 bytes`:        with(func(s *saved) { s.count = 7 }),
		`of 4611686018427387904 float32 has 24 bytes`:  with(func(s *saved) { s.count = 1 << 62 }),
		"needs more than the 6 elements":               with(func(s *saved) { s.offset = 1 }),
		"from element 6 on":                            shaped(6, []int{}, []int{}),
		"of shape [1048576 2] and strides [0 6]":       shaped(0, []int{1 << 20, 2}, []int{0, 6}),
		"is impossible":                                shaped(0, []int{1 << 40, 1 << 40}, []int{1 << 40, 1}),
		"the description of a tensor is not valid":     with(func(s *saved) { s.shape = []int{-2, 3} }),
		`it refers to "torch.QInt8Storage"`:            with(func(s *saved) { s.class = "QInt8Storage" }),
		"it is a pickle, but not a file of torch.save": []byte("\x80\x02N."),
	} {
		_, err := open(t, contents)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "model.pt: ", "the message names the file")
	}
}

// A tensor with more elements than its storage does not prevent the use of the others.
func TestOpenExpanded(t *testing.T) {
	f, err := open(t, archiveOf(t, zip.Store, [2]string{"m/data.pkl", string(stateDict(
		saved{"expanded", "FloatStorage", "0", 2, 0, []int{1 << 40, 2}, []int{0, 1}},
		saved{"whole", "FloatStorage", "0", 2, 0, []int{2, 1}, []int{0, 1}},
		saved{"plain", "FloatStorage", "0", 2, 0, []int{2}, []int{1}},
	))}, [2]string{"m/data/0", bytesOf([]float32{3, 4})}))
	require.NoError(t, err)
	require.True(t, tensorOf(t, f, "expanded").Expanded())
	require.Panics(t, func() { tensorOf(t, f, "expanded").Float32() })
	for name, want := range map[string][]float32{"whole": {3, 3}, "plain": {3, 4}} {
		require.False(t, tensorOf(t, f, name).Expanded())
		require.Equal(t, want, tensorOf(t, f, name).Float32(), name)
	}
}

func TestOpenLegacyDamaged(t *testing.T) {
	code := stateDict(saved{"x", "FloatStorage", "0", 6, 0, []int{2, 3}, []int{3, 1}})
	data := bytesOf(make([]float32, 6))
	whole := legacyOf(code, map[string]int{"0": 6}, [2]string{"0", data})
	_, err := open(t, whole)
	require.NoError(t, err)
	for n := 2; n < len(whole); n++ { // no truncated file can be read
		_, err := open(t, whole[:n])
		require.Error(t, err)
	}
	for want, contents := range map[string][]byte{
		"has 6 elements in one place and 5 in another": legacyOf(code, map[string]int{"0": 5}, [2]string{"0", data}),
		"no tensor uses its storage":                   legacyOf(code, map[string]int{"1": 6}, [2]string{"1", data}),
		"the elements of a tensor are missing":         legacyOf(code, nil),
	} {
		_, err := open(t, contents)
		require.ErrorContains(t, err, want)
	}
}

func FuzzOpen(f *testing.F) {
	code := stateDict(saved{"x", "FloatStorage", "0", 6, 0, []int{2, 3}, []int{3, 1}})
	f.Add(legacyOf(code, map[string]int{"0": 6}, [2]string{"0", bytesOf(make([]float32, 6))}))
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, r := range [][2]string{{"m/data.pkl", string(code)}, {"m/data/0", bytesOf(make([]float32, 6))}} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: r[0], Method: zip.Store})
		require.NoError(f, err)
		_, err = w.Write([]byte(r[1]))
		require.NoError(f, err)
	}
	require.NoError(f, z.Close())
	f.Add(out.Bytes())
	f.Fuzz(func(t *testing.T, contents []byte) {
		path := filepath.Join(t.TempDir(), "model.pt")
		require.NoError(t, os.WriteFile(path, contents, 0o644))
		file, err := torch.Open(path, func(pickle.Global) bool { return true })
		if err != nil {
			return
		}
		defer file.Close()
		d, ok := file.Value.(*pickle.Dict)
		if !ok {
			return
		}
		for _, e := range d.Entries {
			if x, ok := e.Value.(*torch.Tensor); ok && !x.Expanded() {
				require.Len(t, x.Float32(), x.Len())
			}
		}
	})
}
