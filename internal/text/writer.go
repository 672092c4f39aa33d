package text

import (
	"io"
	"os"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// Writer escapes text as Escape does, except for line feeds and tabs, and writes it to another
// writer. It is the last line of defence for a stream of lines and tables. The caller must escape
// text that must not break a line or shift a column. On a terminal, a Writer lets the escape
// sequences of a Style through, unless a sequence is split between two calls of Write. Several
// goroutines may use a Writer at once.
type Writer struct {
	w      io.Writer
	styled bool

	mu       sync.Mutex
	cut      []byte // an incomplete character, which the next Write may complete
	previous rune
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w, styled: styled(w)} }

// Unwrap returns the underlying writer.
func (w *Writer) Unwrap() io.Writer { return w.w }

// Write writes p, escaped. It keeps an incomplete character at the end of p for the next Write or
// Flush.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	whole := append(w.cut, p...)
	end := len(whole)
	for i := end - 1; i >= max(0, end-utf8.UTFMax+1); i-- {
		if utf8.RuneStart(whole[i]) {
			if !utf8.FullRune(whole[i:]) {
				end = i
			}
			break
		}
	}
	w.cut = append([]byte(nil), whole[end:]...)
	shown := []byte{}
	for rest := string(whole[:end]); rest != ""; {
		style, from := w.nextStyle(rest)
		shown, w.previous = appendEscaped(shown, rest[:from], w.previous, "\n\t", goEscape)
		if style != "" {
			shown, w.previous = append(shown, style...), 0
		}
		rest = rest[from+len(style):]
	}
	if _, err := w.w.Write(shown); err != nil {
		return 0, err
	}
	return len(p), nil
}

// nextStyle returns the first sequence of a style in s, and its index. If w does not show styles or
// s has none, it returns "" and the length of s.
func (w *Writer) nextStyle(s string) (style string, index int) {
	for i := range len(s) {
		if s[i] == '\x1b' && w.styled {
			if style := cutStyle(s[i:]); style != "" {
				return style, i
			}
		}
	}
	return "", len(s)
}

// Flush escapes and writes the incomplete character, if any, that the last Write kept.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.cut) == 0 {
		return nil
	}
	var shown []byte
	shown, w.previous = appendEscaped(nil, string(w.cut), w.previous, "\n\t", goEscape)
	w.cut = nil
	_, err := w.w.Write(shown)
	return err
}

// Exact returns a writer for text that programs read, such as tab-separated lines. It bypasses the
// escaping of a Writer, so every byte reaches the destination unchanged. On a terminal, however,
// the text is escaped.
func Exact(w io.Writer) io.Writer {
	w = Unescaped(w)
	if OnTerminal(w) {
		return NewWriter(w)
	}
	return w
}

// OnTerminal reports whether w writes to a terminal. It looks through writers that have a method
// Unwrap.
func OnTerminal(w io.Writer) bool {
	file := fileOf(w)
	return file != nil && term.IsTerminal(int(file.Fd()))
}

// Width returns the number of columns of the terminal that w writes to, or 0 if it is unknown.
func Width(w io.Writer) int {
	file := fileOf(w)
	if file == nil {
		return 0
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// fileOf returns the file that w writes to, or nil if there is none. It looks through writers that
// have a method Unwrap.
func fileOf(w io.Writer) *os.File {
	for {
		switch x := w.(type) {
		case *os.File:
			return x
		case interface{ Unwrap() io.Writer }:
			w = x.Unwrap()
		default:
			return nil
		}
	}
}

// Unescaped returns the writer below a Writer, if w is one or leads to one through its method
// Unwrap, and w otherwise. A progress bar writes control characters to the lower writer.
func Unescaped(w io.Writer) io.Writer {
	for next := w; ; {
		switch x := next.(type) {
		case *Writer:
			return x.w
		case interface{ Unwrap() io.Writer }:
			next = x.Unwrap()
		default:
			return w
		}
	}
}
