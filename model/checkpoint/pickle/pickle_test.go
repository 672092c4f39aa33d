package pickle_test

import (
	"encoding/hex"
	"maps"
	"math/big"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model/checkpoint/pickle"
)

// python returns the pickles of Python expressions.
func python(t *testing.T, protocol string, expressions ...string) [][]byte {
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	code := "import pickle, collections, fractions, types\nfor v in [" + strings.Join(expressions, ", ") + "]: " +
		"print(pickle.dumps(v, " + protocol + ").hex())"
	out, err := exec.Command(interpreter, "-c", code).Output()
	require.NoError(t, err)
	var pickles [][]byte
	for line := range strings.Lines(string(out)) {
		data, err := hex.DecodeString(strings.TrimSpace(line))
		require.NoError(t, err)
		pickles = append(pickles, data)
	}
	require.Len(t, pickles, len(expressions))
	return pickles
}

func TestReadValues(t *testing.T) {
	huge, _ := new(big.Int).SetString("-170141183460469231731687303715884105729", 10)
	wanted := map[string]any{
		"None": nil, "True": true, "False": false,
		"0": int64(0), "-1": int64(-1), "255": int64(255), "65535": int64(65535), "-2**31": int64(-1 << 31),
		"2**31": int64(1 << 31), "2**63-1": int64(1<<63 - 1), "-2**63": int64(-1 << 63),
		"-2**127-1": huge, "2**64": new(big.Int).Lsh(big.NewInt(1), 64),
		"-0.1": -0.1, "1e300": 1e300,
		"''": "", "'Zürich'": "Zürich", "'x'*300": strings.Repeat("x", 300),
		"()": pickle.Tuple{}, "(1,)": pickle.Tuple{int64(1)}, "(1,2)": pickle.Tuple{int64(1), int64(2)},
		"(1,2,3)":      pickle.Tuple{int64(1), int64(2), int64(3)},
		"(1,(2,),3,4)": pickle.Tuple{int64(1), pickle.Tuple{int64(2)}, int64(3), int64(4)},
		"[]":           &pickle.List{}, "[1]": &pickle.List{Items: []any{int64(1)}},
		"[1,None,'a']":   &pickle.List{Items: []any{int64(1), nil, "a"}},
		"frozenset([1])": &pickle.List{Items: []any{int64(1)}}, "b'ab'": []byte("ab"),
	}
	for _, protocol := range []string{"2", "3", "4", "5"} {
		expressions := slices.Sorted(maps.Keys(wanted))
		if protocol < "4" { // older protocols call functions for these values
			expressions = slices.DeleteFunc(expressions, func(e string) bool {
				return strings.HasPrefix(e, "frozenset") || protocol == "2" && strings.HasPrefix(e, "b'")
			})
		}
		for i, data := range python(t, protocol, expressions...) {
			got, n, err := pickle.Read(append(data, "rest"...), pickle.Options{})
			require.NoError(t, err, "%s, protocol %s", expressions[i], protocol)
			require.Equal(t, wanted[expressions[i]], got, "%s, protocol %s", expressions[i], protocol)
			require.Equal(t, len(data), n)
		}
	}
}

func TestReadDictionary(t *testing.T) {
	for _, protocol := range []string{"2", "4"} {
		got, _, err := pickle.Read(python(t, protocol, "{'b': [1], 'a': {2: 3.5}, 'b2': None}")[0], pickle.Options{})
		require.NoError(t, err)
		d := got.(*pickle.Dict)
		require.Equal(t, "b", d.Entries[0].Key)
		v, ok := d.Get("b")
		require.True(t, ok)
		require.Equal(t, &pickle.List{Items: []any{int64(1)}}, v)
		v, ok = d.Get("b2")
		require.True(t, ok)
		require.Nil(t, v)
		_, ok = d.Get("missing")
		require.False(t, ok)
		v, _ = d.Get("a")
		require.Equal(t, []pickle.Entry{{Key: int64(2), Value: 3.5}}, v.(*pickle.Dict).Entries)
	}
}

// A value that is shared or contains itself stays a single value.
func TestReadSharedValues(t *testing.T) {
	got, _, err := pickle.Read(python(t, "4", "(lambda x: (x.append(x), x, [x])[1:])([])")[0], pickle.Options{})
	require.NoError(t, err)
	pair := got.(pickle.Tuple)
	x := pair[0].(*pickle.List)
	require.Same(t, x, x.Items[0])
	require.Same(t, x, pair[1].(*pickle.List).Items[0])
}

func TestReadRefusesUnknownNames(t *testing.T) {
	evil := []byte("\x80\x02cos\nsystem\nX\x04\x00\x00\x00ls -\x85R.")
	_, _, err := pickle.Read(evil, pickle.Options{})
	require.EqualError(t, err,
		`the pickle cannot be read: it refers to "os.system", which is not among the names that are safe to read (at byte 2)`)

	fraction := python(t, "4", "fractions.Fraction(1, 3)")[0]
	_, _, err = pickle.Read(fraction, pickle.Options{})
	require.ErrorContains(t, err, `"fractions.Fraction"`)
}

func TestReadObjects(t *testing.T) {
	config := pickle.Global{Module: "types", Name: "SimpleNamespace"}
	o := pickle.Options{Opaque: func(g pickle.Global) bool { return g == config }}
	got, _, err := pickle.Read(python(t, "2", "types.SimpleNamespace(model='complex', dim=3)")[0], o)
	require.NoError(t, err)
	object := got.(*pickle.Object)
	require.Equal(t, config, object.Class)
	dim, ok := object.Attribute("dim")
	require.True(t, ok)
	require.Equal(t, int64(3), dim)
	_, ok = object.Attribute("missing")
	require.False(t, ok)

	ordered := pickle.Global{Module: "collections", Name: "OrderedDict"}
	o = pickle.Options{Known: map[pickle.Global]pickle.Constructor{
		ordered: func(args pickle.Tuple) (any, error) { return &pickle.Dict{}, nil },
	}}
	got, _, err = pickle.Read(python(t, "2", "collections.OrderedDict([('a', 1), ('b', 2)])")[0], o)
	require.NoError(t, err)
	b, _ := got.(*pickle.Dict).Get("b")
	require.Equal(t, int64(2), b)

	o.Known[ordered] = nil
	_, _, err = pickle.Read(python(t, "2", "collections.OrderedDict()")[0], o)
	require.ErrorContains(t, err, "it calls collections.OrderedDict, which may occur but must not be called")
	got, _, err = pickle.Read(python(t, "2", "collections.OrderedDict")[0], o)
	require.NoError(t, err)
	require.Equal(t, ordered, got)
}

func TestReadPersistent(t *testing.T) {
	data := []byte("\x80\x02X\x01\x00\x00\x00kQ.")
	_, _, err := pickle.Read(data, pickle.Options{})
	require.ErrorContains(t, err, "it refers to data outside itself")
	got, _, err := pickle.Read(data, pickle.Options{
		Persistent: func(id any) (any, error) { return id.(string) + "!", nil },
	})
	require.NoError(t, err)
	require.Equal(t, "k!", got)
}

func TestReadDamaged(t *testing.T) {
	for data, want := range map[string]string{
		"":                                       "it is truncated (at byte 0)",
		"\x80\x02":                               "it is truncated (at byte 2)",
		"\x80\x06.":                              "it has protocol 6, but the newest known protocol is 5",
		".":                                      "an instruction finds no value on the stack",
		"(.":                                     "an instruction finds no value on the stack",
		"t.":                                     "an instruction finds no value on the stack",
		"\x86.":                                  "an instruction finds no value on the stack",
		"Na.":                                    "an instruction finds no value on the stack",
		"NNa.":                                   "it adds values to something that cannot hold them",
		"](Nu.":                                  "it adds values to something that cannot hold them",
		"}(Nu.":                                  "it adds values to something that cannot hold them",
		"h\x07.":                                 "its memo has no value 7",
		"X\xff\xff\xff\xffab":                    "it is truncated",
		"\x8d\xff\xff\xff\xff\xff\xff\xff\xffab": "it is truncated",
		"X\x01\x00\x00\x00\xff.":                 "a string is not UTF-8",
		"\x8b\xff\xff\xff\xff.":                  "it is truncated",
		"I1\n.":                                  "it has the old protocol 0 or 1",
		"\xff.":                                  "instruction 0xff is unknown",
		"cos":                                    "it is truncated",
		"NNR.":                                   "the arguments of a call are not a tuple",
		"N)R.":                                   "it calls a value that is not a function",
		"NN\x93.":                                "the name of a class or function is not a string",
	} {
		_, _, err := pickle.Read([]byte(data), pickle.Options{})
		require.ErrorContains(t, err, want, "%q", data)
	}
}

// The number of values that a pickle pushes, marks or stores is limited, because a value of one byte
// needs much more memory.
func TestReadLimitsValues(t *testing.T) {
	const most = 1 << 25
	for name, c := range map[string]struct{ first, repeated, last string }{
		"values": {"", "N0", "N."}, "marks": {"", "(1", "N."}, "memo": {"N", "q\x01", "."},
	} {
		pickleOf := func(n int) []byte {
			return []byte("\x80\x02" + c.first + strings.Repeat(c.repeated, n) + c.last)
		}
		if name == "values" {
			_, _, err := pickle.Read(pickleOf(most-1), pickle.Options{})
			require.NoError(t, err)
		}
		_, _, err := pickle.Read(pickleOf(most), pickle.Options{})
		require.ErrorContains(t, err, "the pickle cannot be read: it has more than 33554432 values: "+
			"remove what does not belong to the model, and save it again (at byte ", name)
	}
}

// A small pickle that looks up a long string again and again would keep a reader busy for hours.
func TestReadLimitsNames(t *testing.T) {
	const size, uses = 1 << 22, 1 << 10 // 4 GiB in total
	long := "X" + string([]byte{0, 0, size >> 16, 0}) + strings.Repeat("k", size) + "q\x00"
	for name, c := range map[string]struct{ first, repeated string }{
		"keys":                   {"0}", "h\x00Ns"},
		"names":                  {"", "h\x00\x8c\x01C\x930"},
		"persistent identifiers": {"0", "h\x00\x85Q0"},
	} {
		pickleOf := func(n int) []byte {
			return []byte("\x80\x04" + long + c.first + strings.Repeat(c.repeated, n) + "N.")
		}
		o := pickle.Options{
			Opaque:     func(pickle.Global) bool { return true },
			Persistent: func(any) (any, error) { return nil, nil },
		}
		_, _, err := pickle.Read(pickleOf(uses/2), o)
		require.NoError(t, err, name)
		_, _, err = pickle.Read(pickleOf(uses+1), o)
		require.ErrorContains(t, err, "the pickle cannot be read: its keys and names have more than 4 GiB "+
			"in total: it is damaged, or made to keep its readers busy (at byte ", name)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("\x80\x02}q\x00(X\x01\x00\x00\x00aK\x01X\x01\x00\x00\x00b" +
		"]q\x01(G?\xf0\x00\x00\x00\x00\x00\x00h\x01eu."))
	f.Add([]byte("\x80\x04\x95\x0a\x00\x00\x00\x00\x00\x00\x00\x8c\x01m\x8c\x01C\x93)\x81}b."))
	f.Add([]byte("(\x8a\x02\xff\xffJ\xff\xff\xff\xffM\x01\x00t0(1(K\x012Q\x94\x90\x91\x88\x89N."))
	o := pickle.Options{
		Opaque:     func(g pickle.Global) bool { return g.Module != "os" },
		Persistent: func(id any) (any, error) { return id, nil },
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, n, err := pickle.Read(data, o)
		if err != nil {
			require.Nil(t, v)
			return
		}
		// The value depends on nothing beyond the STOP instruction.
		require.Equal(t, byte('.'), data[n-1])
		_, again, err := pickle.Read(data[:n], o)
		require.NoError(t, err)
		require.Equal(t, n, again)
		_, _, err = pickle.Read(data[:n-1], o)
		require.Error(t, err)
	})
}

// A call with keyword arguments makes an object, to which a pickle may append values and pairs.
func TestReadObjectWithItems(t *testing.T) {
	class := pickle.Global{Module: "m", Name: "C"}
	o := pickle.Options{Opaque: func(g pickle.Global) bool { return g == class }}
	const object = "\x80\x04\x8c\x01m\x8c\x01C\x93K\x01\x85}(\x8c\x01kK\x02u\x92"
	got, _, err := pickle.Read([]byte(object+"K\x01a(K\x01K\x02e(K\x01K\x02u."), o)
	require.NoError(t, err)
	require.Equal(t, &pickle.Object{Class: class}, got)

	for _, wrong := range []string{
		object + "(K\x01u.", "\x80\x02](K\x01K\x02u.", "\x80\x02}K\x01a.", "\x80\x02}(K\x01u.",
	} {
		_, _, err = pickle.Read([]byte(wrong), o)
		require.ErrorContains(t, err, "it is damaged: it adds values to something that cannot hold them")
	}
}

// Text returns a short text for a value of any size.
func TestText(t *testing.T) {
	bomb := []byte("\x80\x02N")
	for range 60 { // 2⁶⁰ values, if they were printed
		bomb = append(bomb, '2', 0x86)
	}
	value, _, err := pickle.Read(append(bomb, '.'), pickle.Options{})
	require.NoError(t, err)
	for _, v := range []any{value, new(big.Int).Lsh(big.NewInt(1), 1<<20), strings.Repeat("x", 1<<20), nil} {
		text, ok := pickle.Text(v)
		require.False(t, ok)
		require.Less(t, len(text), 60)
	}
	for v, want := range map[any]string{true: "true", int64(-3): "-3", 0.5: "0.5", 1.0: "1", "a": "a"} {
		text, ok := pickle.Text(v)
		require.True(t, ok)
		require.Equal(t, want, text)
	}
}
