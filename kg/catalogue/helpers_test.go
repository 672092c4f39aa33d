package catalogue

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// toyTexts holds the splits of a data set in the form from which checksums are computed. The
// training split is long enough for tests that cut it.
var toyTexts = map[string]string{
	"train": manyTriples(20_000),
	"valid": "a\tr0\tb\n",
	"test":  "b\tr1\tc\nc\tr1\ta\n",
}

func manyTriples(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "e%d\tr%d\te%d\n", i*7919%4096, i%5, i)
	}
	return text.String()
}

// toy returns a data set of the toy texts with the correct checksums.
func toy(origins ...string) Dataset {
	d := Dataset{Name: "toy", Title: "Toy", Origins: origins}
	for _, name := range []string{"train", "valid", "test"} {
		d.Files = append(d.Files, file(name, strings.Count(toyTexts[name], "\n"), sha256Of(toyTexts[name])))
	}
	return d
}

func sha256Of(text string) Sum { return Sum(fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text)))) }

func gzipped(tb testing.TB, text string) string {
	tb.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write([]byte(text))
	require.NoError(tb, err)
	require.NoError(tb, z.Close())
	return out.String()
}

func zstandard(tb testing.TB, text string) string {
	tb.Helper()
	z, err := zstd.NewWriter(nil)
	require.NoError(tb, err)
	return string(z.EncodeAll([]byte(text), nil))
}

// tarred returns an uncompressed archive. Readers detect compression from the first bytes.
func tarred(tb testing.TB, members map[string]string) string {
	tb.Helper()
	var out bytes.Buffer
	z := tar.NewWriter(&out)
	for name, text := range members {
		header := tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))}
		require.NoError(tb, z.WriteHeader(&header))
		_, err := z.Write([]byte(text))
		require.NoError(tb, err)
	}
	require.NoError(tb, z.Close())
	return out.String()
}

// fetcher returns a Fetcher for a new folder. Its waits between attempts are short.
func fetcher(tb testing.TB) *Fetcher {
	f := NewFetcher(filepath.Join(tb.TempDir(), "data"))
	f.backoff = []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond}
	f.Log = func(line string) { tb.Log(line) }
	return f
}

// requireToy checks that the toy data set is complete and correct, and that the folder has no other
// files.
func requireToy(tb testing.TB, f *Fetcher) {
	tb.Helper()
	for name, text := range toyTexts {
		require.Equal(tb, text, stored(tb, filepath.Join(f.Dir, "toy", name+".txt.gz")), name)
	}
	require.Equal(tb, []string{"toy"}, entries(tb, f.Dir))
	require.Equal(tb, []string{"test.txt.gz", "train.txt.gz", "valid.txt.gz"}, entries(tb, filepath.Join(f.Dir, "toy")))
}

func stored(tb testing.TB, path string) string {
	tb.Helper()
	data, err := os.ReadFile(path)
	require.NoError(tb, err)
	z, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(tb, err)
	var text bytes.Buffer
	_, err = text.ReadFrom(z)
	require.NoError(tb, err)
	return text.String()
}

func entries(tb testing.TB, dir string) []string {
	tb.Helper()
	list, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(tb, err)
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func writeFiles(tb testing.TB, dir string, files map[string]string) string {
	tb.Helper()
	require.NoError(tb, os.MkdirAll(dir, 0o755))
	for name, text := range files {
		require.NoError(tb, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

// toyFiles returns the toy texts by file name. If edit is not nil, it changes each text.
func toyFiles(extension string, edit func(string) string) map[string]string {
	files := make(map[string]string)
	for name, text := range toyTexts {
		if edit != nil {
			text = edit(text)
		}
		files[name+extension] = text
	}
	return files
}

// server serves files with entity tags and ranges. If fault is not nil, it may answer instead.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	files    map[string]string
	requests []string // name and range: "train.txt bytes=100-"
	fault    func(s *server, attempt int, name string, w http.ResponseWriter, r *http.Request) (answered bool)
}

func serve(tb testing.TB, files map[string]string) *server {
	s := &server{files: files}
	attempts := make(map[string]int)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := path.Base(r.URL.Path)
		s.mu.Lock()
		attempt := attempts[name]
		attempts[name]++
		s.requests = append(s.requests, strings.TrimSpace(name+" "+r.Header.Get("Range")))
		s.mu.Unlock()
		if s.fault != nil && s.fault(s, attempt, name, w, r) {
			return
		}
		s.serveFile(w, r, name)
	}))
	tb.Cleanup(s.Close)
	return s
}

func (s *server) serveFile(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	text, ok := s.files[name]
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", fmt.Sprintf("%q", sha256Of(text)))
	http.ServeContent(w, r, name, time.Time{}, strings.NewReader(text))
}

// cutter aborts the connection after a number of bytes of the body.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		c.ResponseWriter.Write(p[:c.left])
		c.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

// asked returns the requests since the previous call.
func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.requests
	s.requests = nil
	return requests
}
