package catalogue

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGetFromServer(t *testing.T) {
	crlf := func(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }
	cases := map[string]map[string]string{
		"plain":              toyFiles(".txt", nil),
		"CRLF":               toyFiles(".txt", crlf),
		"no last LF":         toyFiles(".txt", func(text string) string { return strings.TrimSuffix(text, "\n") }),
		"gzip":               toyFiles(".txt.gz", func(text string) string { return gzipped(t, text) }),
		"gzip of CRLF":       toyFiles(".txt.gz", func(text string) string { return gzipped(t, crlf(text)) }),
		"gzip, called plain": toyFiles(".txt", func(text string) string { return gzipped(t, text) }),
	}
	for name, files := range cases {
		t.Run(name, func(t *testing.T) {
			s, f := serve(t, files), fetcher(t)
			var last [2]int64
			f.Progress = func(_ string, done, total int64) { last = [2]int64{done, total} }
			result, err := f.Get(t.Context(), toy(s.URL+"/data/"), "")
			require.NoError(t, err)
			require.ElementsMatch(t, []string{"train", "valid", "test"}, result.Fetched)
			require.Empty(t, result.Notes)
			require.Equal(t, filepath.Join(f.Dir, "toy"), result.Dir)
			require.Positive(t, last[1])
			require.Equal(t, last[1], last[0])
			requireToy(t, f)

			// The second time, there is nothing to do, and Get sends no request.
			require.NotEmpty(t, s.asked())
			result, err = f.Get(t.Context(), toy(s.URL+"/data/"), "")
			require.NoError(t, err)
			require.Empty(t, result.Fetched)
			require.Empty(t, s.asked())
		})
	}
}

func TestGetFrom(t *testing.T) {
	zip := func(text string) string { return gzipped(t, text) }
	zstd := toyFiles(".txt.zst", func(text string) string { return zstandard(t, text) })
	archive := gzipped(t, tarred(t, map[string]string{
		"toy/README":              "not a split",
		"toy/old-train.txt":       "an\tolder\tversion\n",
		"toy/mtr100-train.txt":    toyTexts["train"],
		"toy/valid.txt":           strings.ReplaceAll(toyTexts["valid"], "\n", "\r\n"),
		"../../outside/test.txt":  toyTexts["test"],
		"toy/ignored/valid.extra": "nothing",
	}))
	s := serve(t, map[string]string{"toy.tar.gz": archive})
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"toy.tgz": archive})
	cases := map[string]string{
		"folder":            writeFiles(t, filepath.Join(dir, "plain"), toyFiles(".txt", nil)),
		"folder of gzip":    writeFiles(t, filepath.Join(dir, "gzip"), toyFiles(".txt.gz", zip)),
		"folder of zstd":    writeFiles(t, filepath.Join(dir, "zstd"), zstd),
		"archive":           filepath.Join(dir, "toy.tgz"),
		"remote archive":    s.URL + "/toy.tar.gz",
		"remote, odd name":  s.URL + "/fetch?media=toy.tar.gz",
		"remote with query": s.URL + "/toy.tar.gz?token=abc",
		"remote, no folder": serve(t, toyFiles(".txt", nil)).URL,
	}
	s.fault = func(s *server, _ int, name string, w http.ResponseWriter, r *http.Request) bool {
		if name == "fetch" {
			s.serveFile(w, r, "toy.tar.gz")
		}
		return name == "fetch"
	}
	for name, from := range cases {
		t.Run(name, func(t *testing.T) {
			f := fetcher(t)
			_, err := f.Get(t.Context(), toy("http://127.0.0.1:1/never/asked/"), from)
			require.NoError(t, err)
			requireToy(t, f)
		})
	}
}

// Get adds a missing split from a single file and does not touch the other files.
func TestGetCompletes(t *testing.T) {
	f := fetcher(t)
	files := toyFiles(".txt", nil)
	train := writeFiles(t, t.TempDir(), map[string]string{"train.txt": files["train.txt"]})
	delete(files, "train.txt")
	files["entities.txt"] = "a\nb\nc\n"
	target := writeFiles(t, filepath.Join(f.Dir, "toy"), files)

	result, err := f.Get(t.Context(), toy(), filepath.Join(train, "train.txt"))
	require.NoError(t, err)
	require.Equal(t, []string{"train"}, result.Fetched)
	require.Equal(t, []string{"entities.txt", "test.txt", "train.txt.gz", "valid.txt"}, entries(t, target))
	require.Equal(t, toyTexts["train"], stored(t, filepath.Join(target, "train.txt.gz")))
	require.Equal(t, []string{"toy"}, entries(t, f.Dir))

	s := serve(t, toyFiles(".txt.gz", func(text string) string { return gzipped(t, text) }))
	require.NoError(t, os.Remove(filepath.Join(target, "valid.txt")))
	result, err = f.Get(t.Context(), toy(), s.URL+"/valid.txt.gz")
	require.NoError(t, err)
	require.Equal(t, []string{"valid"}, result.Fetched)
}

func TestGetRefusesDamagedCopy(t *testing.T) {
	f := fetcher(t)
	files := toyFiles(".txt", nil)
	files["valid.txt"] = "a\tr0\tX\n"
	writeFiles(t, filepath.Join(f.Dir, "toy"), files)
	_, err := f.Get(t.Context(), toy(), "")
	require.ErrorContains(t, err, filepath.Join("toy", "valid.txt")+" has the sha256 checksum ")
	require.ErrorContains(t, err, "remove it and run the same command")
	require.Equal(t, []string{"test.txt", "train.txt", "valid.txt"}, entries(t, filepath.Join(f.Dir, "toy")))

	for text, problem := range map[string]string{
		gzipped(t, toyTexts["train"])[:1000]: "unexpected EOF; remove it",
		"\x1f\x8b":                           "it is not a gzip file (unexpected EOF); remove it",
		"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 7\n": "it is a Git LFS pointer, not the " +
			"file itself: run \"git lfs pull\" in its repository and copy it again, or remove it",
	} {
		f := fetcher(t)
		path := filepath.Join(f.Dir, "toy", "train.txt.gz")
		writeFiles(t, filepath.Dir(path), map[string]string{"train.txt.gz": text})
		_, err := f.Get(t.Context(), toy(), "")
		require.EqualError(t, err,
			"reading "+path+": "+problem+" and run the same command to fetch it again")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = f.Get(ctx, toy(), "")
		require.EqualError(t, err, "checking a file: context canceled")
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Mkdir(path, 0o755))
		_, err = f.Get(t.Context(), toy(), "")
		require.EqualError(t, err, "checking a file: read "+path+": it is a folder, not a file")
	}
}

// Get does not add files to a folder with N-Triples, because kg.Open accepts only one form of a split.
func TestGetRefusesOtherForms(t *testing.T) {
	for _, c := range []struct {
		files []string
		want  string
	}{
		{[]string{"valid.nt"}, "valid.nt has N-Triples instead of tab-separated text: " +
			"it is damaged or another version; remove it and run the same command to fetch it again, " +
			"or rename the folder if it is another data set"},
		{[]string{"test.nt.gz"}, "test.nt.gz has N-Triples instead of tab-separated text: "},
		{[]string{"valid.txt", "valid.nt"}, "toy has both valid.txt and valid.nt: remove one of them"},
	} {
		s, f := serve(t, toyFiles(".txt", nil)), fetcher(t)
		files := map[string]string{}
		for _, name := range c.files {
			files[name] = toyTexts["valid"]
		}
		dir := writeFiles(t, filepath.Join(f.Dir, "toy"), files)
		_, err := f.Get(t.Context(), toy(s.URL+"/"), "")
		require.ErrorContains(t, err, c.want)
		require.Len(t, entries(t, dir), len(c.files))
		require.Empty(t, s.asked())
	}
}

func TestGetTriesNextOrigin(t *testing.T) {
	gone, wrong, right := serve(t, nil), serve(t, toyFiles(".txt", nil)), serve(t, toyFiles(".txt", nil))
	wrong.files["valid.txt"] = "another\tversion\there\n"
	f := fetcher(t)
	_, err := f.Get(t.Context(), toy(gone.URL+"/", wrong.URL+"/", right.URL+"/"), "")
	require.NoError(t, err)
	requireToy(t, f)
	require.Len(t, gone.asked(), 6, "each file, plain and as gzip, once")
	require.Equal(t, []string{"valid.txt"}, right.asked(), "only the file that the second origin lacks")
}

func TestGetNotesMissingChecksums(t *testing.T) {
	d := toy(serve(t, toyFiles(".txt", nil)).URL + "/")
	d.Files[0].Sums = nil
	result, err := fetcher(t).Get(t.Context(), d, "")
	require.NoError(t, err)
	require.Equal(t, []string{"no checksum of train is known: only its number of lines is checked"}, result.Notes)

	d.Files[0].Lines--
	_, err = fetcher(t).Get(t.Context(), d, "")
	require.ErrorContains(t, err, "has more than 19,999 lines")
	d.Files[0].Lines += 2
	_, err = fetcher(t).Get(t.Context(), d, "")
	require.ErrorContains(t, err, "has 20,000 lines instead of 20,001")
}

func TestGetWithoutOptionalFile(t *testing.T) {
	d := toy(serve(t, toyFiles(".txt", nil)).URL + "/")
	d.Files = append(d.Files, file("test_negatives", 1, sha256Of("x\ty\tz\n")))
	f := fetcher(t)
	result, err := f.Get(t.Context(), d, "")
	require.NoError(t, err)
	require.Len(t, result.Notes, 1)
	require.Contains(t, result.Notes[0], "test_negatives is missing")
	requireToy(t, f)
}

func TestGetResumes(t *testing.T) {
	const cut = 100_000
	s := serve(t, toyFiles(".txt", nil))
	s.fault = func(s *server, attempt int, name string, w http.ResponseWriter, r *http.Request) bool {
		if name == "train.txt" && attempt < 2 {
			s.serveFile(&cutter{w, cut}, r, name)
		}
		return false
	}
	f := fetcher(t)
	_, err := f.Get(t.Context(), toy(s.URL+"/"), "")
	require.NoError(t, err)
	requireToy(t, f)
	require.Equal(t, []string{
		"train.txt", "train.txt bytes=100000-", "train.txt bytes=200000-", "valid.txt", "test.txt",
	}, s.asked())
}

// The next process resumes an interrupted download.
func TestGetResumesAfterInterruption(t *testing.T) {
	const cut = 100_000
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, toyFiles(".txt", nil))
	s.fault = func(s *server, attempt int, name string, w http.ResponseWriter, r *http.Request) bool {
		if name != "train.txt" || attempt > 0 {
			return false
		}
		w.Header().Set("ETag", fmt.Sprintf("%q", sha256Of(toyTexts["train"])))
		w.Write([]byte(toyTexts["train"][:cut]))
		w.(http.Flusher).Flush()
		<-r.Context().Done() // a server that falls silent
		return true
	}
	f := fetcher(t)
	var log []string
	f.Log = func(line string) { log = append(log, line) }
	f.Progress = func(_ string, done, _ int64) {
		if done == cut {
			cancel()
		}
	}
	start := time.Now()
	_, err := f.Get(ctx, toy(s.URL+"/"), "")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "fetching toy was interrupted: context canceled")
	require.Less(t, time.Since(start), 5*time.Second)
	require.Equal(t, []string{".toy.part"}, entries(t, f.Dir))
	require.Equal(t, []string{"the partial download stays in " + filepath.Join(f.Dir, ".toy.part") +
		": run the same command to resume it"}, log)

	f.Progress = nil
	_, err = f.Get(t.Context(), toy(s.URL+"/"), "")
	require.NoError(t, err)
	requireToy(t, f)
	require.Equal(t, []string{"train.txt", "train.txt bytes=100000-", "valid.txt", "test.txt"}, s.asked())
}

// An interruption before the first byte leaves nothing to resume.
func TestGetInterruptedBeforeTheFirstByte(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, nil)
	s.fault = func(_ *server, _ int, _ string, _ http.ResponseWriter, r *http.Request) bool {
		cancel()
		<-r.Context().Done()
		return true
	}
	f := fetcher(t)
	f.Log = func(line string) { require.Fail(t, line) }
	_, err := f.Get(ctx, toy(s.URL), "")
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, entries(t, f.Dir))
}

// Get does not download a file again if its download was complete when the process ended.
func TestGetResumesCompleteDownload(t *testing.T) {
	s, f := serve(t, toyFiles(".txt", nil)), fetcher(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.Progress = func(address string, done, total int64) {
		if strings.HasSuffix(address, "train.txt") && done == total {
			cancel()
		}
	}
	_, err := f.Get(ctx, toy(s.URL), "")
	require.ErrorIs(t, err, context.Canceled)
	part, err := os.ReadFile(filepath.Join(f.Dir, ".toy.part", "train.part"))
	require.NoError(t, err)
	require.Equal(t, toyTexts["train"], string(part))

	f.Progress = nil
	_, err = f.Get(t.Context(), toy(s.URL), "")
	require.NoError(t, err)
	requireToy(t, f)
	resumed := fmt.Sprintf("train.txt bytes=%d-", len(toyTexts["train"]))
	require.Equal(t, []string{"train.txt", resumed, "valid.txt", "test.txt"}, s.asked())
}

func TestGetStartsAgain(t *testing.T) {
	const cut = 100_000
	faults := map[string]func(s *server, attempt int, name string, w http.ResponseWriter, r *http.Request) bool{
		"no ranges": func(s *server, attempt int, name string, w http.ResponseWriter, r *http.Request) bool {
			r.Header.Del("Range")
			if attempt == 0 {
				s.serveFile(&cutter{w, cut}, r, name)
			}
			return false
		},
		"no validator": func(s *server, attempt int, name string, w http.ResponseWriter, r *http.Request) bool {
			if attempt == 0 {
				w = &cutter{w, cut}
			}
			w.Write([]byte(s.files[name]))
			return true
		},
		"changed file": func(s *server, attempt int, name string, w http.ResponseWriter, r *http.Request) bool {
			if attempt == 0 {
				w.Header().Set("ETag", `"older"`)
				(&cutter{w, cut}).Write([]byte(strings.Repeat("an older version\n", 10_000)))
			}
			return false
		},
		"wrong range": func(s *server, attempt int, name string, w http.ResponseWriter, r *http.Request) bool {
			if attempt == 0 {
				s.serveFile(&cutter{w, cut}, r, name)
			}
			if attempt == 1 {
				w.Header().Set("Content-Range", "bytes 7-9/1000")
				w.WriteHeader(http.StatusPartialContent)
			}
			return attempt == 1
		},
		"unsatisfiable range": func(s *server, attempt int, name string, w http.ResponseWriter, r *http.Request) bool {
			if attempt == 0 {
				s.serveFile(&cutter{w, cut}, r, name)
			}
			if attempt == 1 {
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			}
			return attempt == 1
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			s, f := serve(t, toyFiles(".txt", nil)), fetcher(t)
			s.fault = func(s *server, attempt int, name string, w http.ResponseWriter, r *http.Request) bool {
				return name == "train.txt" && fault(s, attempt, name, w, r)
			}
			_, err := f.Get(t.Context(), toy(s.URL+"/"), "")
			require.NoError(t, err)
			requireToy(t, f)
		})
	}
}

func TestGetTriesAgain(t *testing.T) {
	for _, status := range []int{408, 429, 500, 502, 503} {
		s, f := serve(t, toyFiles(".txt", nil)), fetcher(t)
		s.fault = func(_ *server, attempt int, _ string, w http.ResponseWriter, _ *http.Request) bool {
			if attempt < 2 {
				w.WriteHeader(status)
			}
			return attempt < 2
		}
		_, err := f.Get(t.Context(), toy(s.URL+"/"), "")
		require.NoError(t, err)
		requireToy(t, f)
	}
}

func TestGetGivesUp(t *testing.T) {
	cases := map[string]struct {
		fault    func(s *server, attempt int, name string, w http.ResponseWriter, r *http.Request) bool
		want     string
		requests int
	}{
		"absent": {func(_ *server, _ int, _ string, w http.ResponseWriter, r *http.Request) bool {
			http.NotFound(w, r)
			return true
		}, "train.txt: the server answers 404 Not Found", 6},
		"forbidden": {func(_ *server, _ int, _ string, w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusForbidden)
			return true
		}, "train.txt: the server answers 403 Forbidden", 1},
		"broken server": {func(_ *server, _ int, _ string, w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}, "train.txt: the server answers 500 Internal Server Error (given up after 4 attempts)", 4},
		"always cut at the same byte": {func(
			s *server, _ int, name string, w http.ResponseWriter, r *http.Request,
		) bool {
			r.Header.Del("Range")
			s.serveFile(&cutter{w, 5}, r, name)
			return true
		}, "train.txt broke off after 5 bytes: unexpected EOF (given up after 4 attempts)", 4},
		"silent": {func(_ *server, _ int, _ string, _ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}, "train.txt: the server sent nothing for too long (given up after 4 attempts)", 4},
		"wrong content": {func(_ *server, _ int, name string, w http.ResponseWriter, _ *http.Request) bool {
			fmt.Fprint(w, strings.Repeat("a\tb\tc\n", strings.Count(toyTexts[strings.TrimSuffix(name, ".txt")], "\n")))
			return true
		}, "train.txt has the sha256 checksum ", 3},
		"too short": {func(_ *server, _ int, _ string, w http.ResponseWriter, _ *http.Request) bool {
			fmt.Fprint(w, "<html>log in first</html>")
			return true
		}, "train.txt has 1 line instead of 20,000: it is damaged or another version", 3},
		"endless line": {func(_ *server, _ int, _ string, w http.ResponseWriter, _ *http.Request) bool {
			fmt.Fprint(w, strings.Repeat("x", 1<<17))
			return true
		}, "train.txt is longer than 64 KiB", 3},
		"cut gzip": {func(_ *server, _ int, _ string, w http.ResponseWriter, _ *http.Request) bool {
			fmt.Fprint(w, gzipped(t, toyTexts["train"])[:1000])
			return true
		}, "train.txt: unexpected EOF", 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, f := serve(t, toyFiles(".txt", nil)), fetcher(t)
			s.fault = c.fault
			if f.stall = time.Minute; strings.Contains(c.want, errStalled.Error()) {
				f.stall = 200 * time.Millisecond
			}
			_, err := f.Get(t.Context(), toy(s.URL+"/"), "")
			require.ErrorContains(t, err, "toy could not be fetched: ")
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "\n")
			require.Len(t, s.asked(), c.requests)
			require.NotContains(t, entries(t, f.Dir), "toy")
		})
	}
}

func TestGetFromNowhere(t *testing.T) {
	dir := writeFiles(t, t.TempDir(), map[string]string{
		"other.txt":     "a\tb\tc\n",
		"train.txt":     toyTexts["train"],
		"broken.tar.gz": "no gzip",
		"cut.tgz":       tarred(t, toyFiles(".txt", nil))[:50],
	})
	s := serve(t, nil)
	cases := map[string]string{
		dir:                          "has no valid.txt",
		filepath.Join(dir, "absent"): "absent: no such file or directory",
		filepath.Join(dir, "other.txt"): "is neither a folder, nor a .tar.gz or .tgz archive, " +
			"nor one of the missing files (train.txt, valid.txt, test.txt, or the same with .gz)",
		filepath.Join(dir, "train.txt"):     "train.txt has only train, and valid is missing too",
		filepath.Join(dir, "broken.tar.gz"): "reading the archive",
		filepath.Join(dir, "cut.tgz"):       "reading the archive",
		"ftp://example.org/toy/":            "is not an http or https address",
		s.URL + "/other.txt":                "nor one of the missing files",
		s.URL + "/toy.tar.gz":               "404 Not Found",
		"http://127.0.0.1:1/":               "connection refused",
	}
	for from, want := range cases {
		f := fetcher(t)
		_, err := f.Get(t.Context(), toy(), from)
		require.ErrorContains(t, err, want, from)
		require.NotContains(t, err.Error(), "\n")
		require.NotContains(t, entries(t, f.Dir), "toy")
	}
	_, err := fetcher(t).Get(t.Context(), toy(), "")
	require.EqualError(t, err, "toy could not be fetched: no public origin is known")
}

func TestGetOneAtATime(t *testing.T) {
	s, f := serve(t, toyFiles(".txt", nil)), fetcher(t)
	var second error
	f.Progress = func(string, int64, int64) {
		if second == nil {
			_, second = NewFetcher(f.Dir).Get(t.Context(), toy(s.URL), "")
		}
	}
	_, err := f.Get(t.Context(), toy(s.URL), "")
	require.NoError(t, err)
	require.ErrorContains(t, second, "another process is fetching toy into "+f.Dir)
	requireToy(t, f)
}

func TestGetIntoUnwritableFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err := NewFetcher(file).Get(t.Context(), toy(), "")
	require.ErrorContains(t, err, "not a directory")
	require.NotContains(t, err.Error(), "\n")
}
