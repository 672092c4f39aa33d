package catalogue

import (
	"bufio"
	"bytes"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// endless writes until the client closes the connection.
func endless(w http.ResponseWriter) {
	for line := []byte(strings.Repeat("a\tr\tb\n", 1000)); ; {
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}

// Get rejects a body that exceeds the limit, as soon as the server announces or sends too many
// bytes, and tries the next origin.
func TestGetBoundsBodies(t *testing.T) {
	bound := toy().Files[0].maxBytes()
	for name, body := range map[string]func(http.ResponseWriter){
		"announced": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", fmt.Sprint(bound+1))
			endless(w)
		},
		"unannounced": endless,
	} {
		t.Run(name, func(t *testing.T) {
			wrong, right := serve(t, toyFiles(".txt", nil)), serve(t, toyFiles(".txt", nil))
			wrong.fault = func(_ *server, _ int, file string, w http.ResponseWriter, _ *http.Request) bool {
				if file == "train.txt" || file == "toy.tar.gz" {
					body(w)
				}
				return file == "train.txt"
			}
			f := fetcher(t)
			var most int64
			f.Progress = func(_ string, done, _ int64) { most = max(most, done) }
			_, err := f.Get(t.Context(), toy(wrong.URL+"/"), "")
			require.ErrorContains(t, err, "train.txt is larger than 5.1 MB: it is damaged or another version")
			require.NotContains(t, err.Error(), "\n")
			require.Equal(t, []string{"train.txt", "valid.txt", "test.txt"}, wrong.asked(), "no file twice")
			require.Less(t, most, bound+1<<20)
			require.NotContains(t, entries(t, filepath.Join(f.Dir, ".toy.part")), "train.part")

			_, err = f.Get(t.Context(), toy(wrong.URL+"/", right.URL+"/"), "")
			require.NoError(t, err)
			requireToy(t, f)
		})
	}
}

func TestGetBoundsArchives(t *testing.T) {
	s := serve(t, nil)
	s.fault = func(_ *server, _ int, _ string, w http.ResponseWriter, _ *http.Request) bool {
		endless(w)
		return true
	}
	f := fetcher(t)
	_, err := f.Get(t.Context(), toy(), s.URL+"/toy.tar.gz")
	require.ErrorContains(t, err, "toy.tar.gz is larger than 11 MB: it is damaged or another version")
	require.Empty(t, entries(t, f.Dir), "nothing to resume")
}

// Get gives up on a server that sends only a byte now and then, even if every attempt adds a byte.
func TestGetGivesUpOnSlowServers(t *testing.T) {
	drip := func(every time.Duration, bytes int) func(*server, int, string, http.ResponseWriter, *http.Request) bool {
		return func(_ *server, _ int, _ string, w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("ETag", `"toy"`)
			if from, resumed := strings.CutPrefix(r.Header.Get("Range"), "bytes="); resumed {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %s%d/%d", from, 1<<20, 1<<20+1))
				w.WriteHeader(http.StatusPartialContent)
			}
			for range bytes {
				_, _ = w.Write([]byte("a"))
				w.(http.Flusher).Flush()
				select {
				case <-time.After(every):
				case <-r.Context().Done():
					return true
				}
			}
			<-r.Context().Done()
			return true
		}
	}
	t.Run("slow", func(t *testing.T) {
		s, f := serve(t, nil), fetcher(t)
		s.fault = drip(time.Millisecond, 1<<20)
		f.stall, f.window, f.least = time.Minute, 200*time.Millisecond, 1<<20
		_, err := f.Get(t.Context(), toy(s.URL), "")
		require.ErrorContains(t, err, "the server sends less than 1 KiB a second (given up after 4 attempts)")
		require.Len(t, s.asked(), 4)
	})
	t.Run("a byte at a time", func(t *testing.T) {
		s, f := serve(t, nil), fetcher(t)
		s.fault = drip(0, 1)
		f.stall = 200 * time.Millisecond
		_, err := f.Get(t.Context(), toy(s.URL), "")
		require.ErrorContains(t, err, "the server sent nothing for too long (given up after 4 attempts)")
		require.Len(t, s.asked(), 4)
	})
}

func TestGetFollowsRedirections(t *testing.T) {
	right := serve(t, toyFiles(".txt", nil))
	for name, c := range map[string]struct {
		to       func(r *http.Request) string
		want     string
		requests int
	}{
		"to another server": {func(r *http.Request) string { return right.URL + r.URL.Path }, "", 3},
		"to a file": {func(*http.Request) string { return "file:///etc/passwd" },
			"the server redirects to file:///etc/passwd, which is not an http or https address", 1},
		"in a circle": {func(r *http.Request) string { return r.URL.Path },
			"the server redirects more than 10 times", 11},
	} {
		t.Run(name, func(t *testing.T) {
			s, f := serve(t, nil), fetcher(t)
			s.fault = func(_ *server, _ int, _ string, w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, c.to(r), http.StatusFound)
				return true
			}
			_, err := f.Get(t.Context(), toy(s.URL), "")
			require.Len(t, s.asked(), c.requests, "without another attempt")
			if c.want == "" {
				require.NoError(t, err)
				requireToy(t, f)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "given up")
		})
	}
}

// The standard logger gets no message about a server that sends more than it announced.
func TestGetLeavesTheLoggerAlone(t *testing.T) {
	var logged lockedBuffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				request, err := http.ReadRequest(bufio.NewReader(connection))
				if err != nil {
					return
				}
				text := toyTexts[strings.TrimSuffix(filepath.Base(request.URL.Path), ".txt")]
				fmt.Fprintf(connection, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s and more", len(text), text)
			}()
		}
	}()
	f := fetcher(t)
	_, err = f.Get(t.Context(), toy("http://"+listener.Addr().String()), "")
	require.NoError(t, err)
	requireToy(t, f)
	require.Empty(t, logged.String())
}

type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
