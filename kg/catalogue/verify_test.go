package catalogue

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// knownSums holds the sums of "a<TAB>r<TAB>b\n" that sha256sum, md5sum and git hash-object print.
var knownSums = []Sum{
	"sha256:b664af6cca16a3aa9a1e51c01d8c710759a7b326a534b5d92ab4eff03affe72a",
	"md5:ed2b7dbfa757e93b0d97fb8662f457d9",
	"git:eb365133a3b6c6ae45e81b5653f5361354170ccb",
}

func TestVerify(t *testing.T) {
	dir := writeFiles(t, t.TempDir(), map[string]string{
		"lf.txt":     "a\tr\tb\n",
		"crlf.txt":   "a\tr\tb\r\n",
		"none.txt":   "a\tr\tb",
		"blank.txt":  "a\tr\tb\n\n",
		"blank2.txt": "a\tr\tb\r\n\r\n",
		"blanks.txt": "a\tr\tb\n\n\n",
		"known.nt":   "a\tr\tb\n",
		"gzip.txt":   gzipped(t, "a\tr\tb\r\n"),
		"zstd.txt":   zstandard(t, "a\tr\tb\n"),
		"other.txt":  "a\tr\tc\n",
		"longer.txt": "a\tr\tb\na\tr\tb\n",
		"empty.txt":  "",
		"broken.txt": gzipped(t, "a\tr\tb\n")[:15],
	})
	known := file("known", 1, knownSums...)
	for _, name := range []string{"lf", "crlf", "none", "blank", "blank2", "gzip", "zstd"} {
		require.NoError(t, known.Verify(t.Context(), filepath.Join(dir, name+".txt")), name)
	}
	for _, sum := range knownSums {
		algorithm, digits, _ := strings.Cut(string(sum), ":")
		err := file("known", 1, sum).Verify(t.Context(), filepath.Join(dir, "other.txt"))
		require.ErrorContains(t, err, "other.txt has the "+algorithm+" checksum ")
		require.ErrorContains(t, err, " instead of "+digits)
	}
	require.ErrorContains(t, known.Verify(t.Context(), filepath.Join(dir, "longer.txt")), "has more than 1 line")
	require.ErrorContains(t, known.Verify(t.Context(), filepath.Join(dir, "blanks.txt")), "has more than 1 line")
	path, err := known.Find(dir)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "known.nt"), path)
	for _, verify := range []func(context.Context, string) error{known.Verify, known.VerifyLines} {
		require.EqualError(t, verify(t.Context(), path),
			path+" has N-Triples instead of tab-separated text: it is damaged or another version")
	}
	require.ErrorContains(t, known.Verify(t.Context(), filepath.Join(dir, "empty.txt")), "has 0 lines instead of 1")
	require.ErrorContains(t, known.Verify(t.Context(), filepath.Join(dir, "broken.txt")), "unexpected EOF")
	require.ErrorContains(t, known.Verify(t.Context(), filepath.Join(dir, "absent.txt")), "no such file")
	require.NoError(t, known.VerifyLines(t.Context(), filepath.Join(dir, "other.txt")), "with different content")
	require.ErrorContains(t, known.VerifyLines(t.Context(), filepath.Join(dir, "longer.txt")), "has more than 1 line")
	err = known.VerifyLines(t.Context(), filepath.Join(dir, "empty.txt"))
	require.ErrorContains(t, err, "has 0 lines instead of 1")
	err = file("known", 1, "crc32:00").Verify(t.Context(), filepath.Join(dir, "lf.txt"))
	require.ErrorContains(t, err, "unknown algorithm")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, known.Verify(ctx, filepath.Join(dir, "lf.txt")), context.Canceled)
}

// FuzzCopyText compares copies of any text, plain and compressed, with the results of a simple
// implementation. It also copies the fuzzer's bytes directly, which may be damaged compressed data,
// and checks the limit on the lines.
func FuzzCopyText(f *testing.F) {
	for _, text := range []string{
		"", "a\tb\tc\n", "a\r\nb\r\n\r\n", "\r", "a\rb\r\r\n", "a\nb", "\x1f\x8b", "\x28\xb5\x2f\xfd",
	} {
		f.Add([]byte(text))
		f.Add([]byte(gzipped(f, text)))
		f.Add([]byte(zstandard(f, text)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want strings.Builder
		lines := strings.Split(string(data), "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		if n := len(lines); n > 0 && strings.TrimSuffix(lines[n-1], "\r") == "" {
			lines = lines[:n-1] // a blank last line
		}
		for _, line := range lines {
			want.WriteString(strings.TrimSuffix(line, "\r") + "\n")
		}
		anyLength := File{Lines: 1 << 30}
		forms := []string{gzipped(t, string(data)), zstandard(t, string(data))}
		if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) && !bytes.HasPrefix(data, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
			forms = append(forms, string(data))
		}
		for _, form := range forms {
			var got strings.Builder
			n, err := anyLength.copyText(t.Context(), &got, strings.NewReader(form), "fuzz")
			if mismatch := (*mismatchError)(nil); errors.As(err, &mismatch) {
				require.Contains(t, err.Error(), "is longer than")
				continue
			}
			require.NoError(t, err)
			require.Equal(t, want.String(), got.String())
			require.Equal(t, len(lines), n)
		}
		var ignored bytes.Buffer
		File{Lines: 100}.copyText(t.Context(), &ignored, bytes.NewReader(data), "fuzz")
		require.LessOrEqual(t, bytes.Count(ignored.Bytes(), []byte("\n")), 100)
	})
}

// FuzzArchive stages hostile archives. Only their correct files may be stored.
func FuzzArchive(f *testing.F) {
	valid := toyTexts["valid"]
	f.Add([]byte(tarred(f, map[string]string{"valid.txt": valid})))
	f.Add([]byte(tarred(f, map[string]string{"../valid.txt": valid + valid, "valid.txt.gz": gzipped(f, valid)})))
	f.Add([]byte(gzipped(f, "no tar")))
	f.Fuzz(func(t *testing.T, data []byte) {
		get := fetcher(t)
		get.Log = nil
		d := Dataset{Name: "toy", Files: []File{file("valid", 1, sha256Of(valid))}}
		from := filepath.Join(writeFiles(t, t.TempDir(), map[string]string{"toy.tgz": string(data)}), "toy.tgz")
		if _, err := get.Get(t.Context(), d, from); err != nil {
			require.ErrorContains(t, err, "toy could not be fetched: ")
			require.Empty(t, entries(t, get.Dir))
			return
		}
		require.Equal(t, []string{"valid.txt.gz"}, entries(t, filepath.Join(get.Dir, "toy")))
		require.Equal(t, valid, stored(t, filepath.Join(get.Dir, "toy", "valid.txt.gz")))
	})
}
