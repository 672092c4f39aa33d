package text

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestWriter splits text at any places, even within characters. The output must be the escaped
// text.
func TestWriter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := hostile.Draw(t, "text") + rapid.SampledFrom([]string{"", "\xff", "\xe2\x82", "\xf0\x9f"}).Draw(t,
			"invalid") + "\n"
		want := strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(Escape(strings.ReplaceAll(whole, `\`, "/")))
		var out bytes.Buffer
		w := NewWriter(&out)
		for rest := strings.ReplaceAll(whole, `\`, "/"); rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			written, err := w.Write([]byte(rest[:n]))
			require.NoError(t, err)
			require.Equal(t, n, written)
			rest = rest[n:]
		}
		require.Equal(t, want, out.String())
		requireShown(t, out.String(), true)
	})
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWriterFails(t *testing.T) {
	_, err := NewWriter(failing{}).Write([]byte("a\n"))
	assert.EqualError(t, err, "full")
}

func TestExact(t *testing.T) {
	var out bytes.Buffer
	assert.Same(t, &out, Exact(&out))
	assert.Same(t, &out, Exact(NewWriter(&out)))
	assert.Same(t, &out, Unescaped(NewWriter(&out)))
	assert.False(t, OnTerminal(NewWriter(&out)))
	assert.Zero(t, Width(NewWriter(&out)))
}

// A Writer lets styles through on a terminal, and nothing else.
func TestWriterStyles(t *testing.T) {
	var out strings.Builder
	w := &Writer{w: &out, styled: true}
	text := "a " + string(Red) + "b\x1b[8m" + endStyle + "\x1b]0;c\x07" + string(Bold) + "d\x1b[1"
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	assert.Equal(t, "a \x1b[31mb\\x1b[8m\x1b[0m\\x1b]0;c\\x07\x1b[1md\\x1b[1", out.String())

	out.Reset()
	w = NewWriter(&out)
	_, err = w.Write([]byte(string(Red) + "b"))
	require.NoError(t, err)
	assert.Equal(t, "\\x1b[31mb", out.String(), "not on a terminal")
	assert.Equal(t, "b", Red.Of(w, "b"))
}

// Flush writes an incomplete character as escaped bytes.
func TestWriterFlush(t *testing.T) {
	var out strings.Builder
	w := NewWriter(&out)
	_, err := w.Write([]byte("a\xe2\x82"))
	require.NoError(t, err)
	require.Equal(t, "a", out.String())
	require.NoError(t, w.Flush())
	require.Equal(t, `a\xe2\x82`, out.String())
	require.NoError(t, w.Flush())
	require.Equal(t, `a\xe2\x82`, out.String())
}
