package text

import (
	"io"
	"os"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// Writer passes text on to another writer, escaped as Escape does except that line feeds and tabs stay: the last
// line of defence of a stream of lines and tables. What must not break a line or shift a column has been escaped
// before. It can be used by several goroutines.
type Writer struct {
	w io.Writer

	mu       sync.Mutex
	cut      []byte // the beginning of a character that the next Write ends
	previous rune
}

// NewWriter returns a Writer that passes text on to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Unwrap returns the writer that the text is passed on to.
func (w *Writer) Unwrap() io.Writer { return w.w }

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
	var shown []byte
	shown, w.previous = appendEscaped([]byte{}, string(whole[:end]), w.previous, "\n\t", goEscape)
	if _, err := w.w.Write(shown); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes what a last Write cut within a character, escaped, since nothing will end it.
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

// Exact returns the writer for text that programs read, such as tab-separated lines: without the Writer that w may
// be, so that every byte stays. Where w leads to a terminal, text is escaped all the same.
func Exact(w io.Writer) io.Writer {
	w = Unescaped(w)
	if OnTerminal(w) {
		return NewWriter(w)
	}
	return w
}

// OnTerminal tells whether what is written to w, perhaps through writers with a method Unwrap, goes to a terminal.
func OnTerminal(w io.Writer) bool {
	for {
		switch x := w.(type) {
		case *os.File:
			return term.IsTerminal(int(x.Fd()))
		case interface{ Unwrap() io.Writer }:
			w = x.Unwrap()
		default:
			return false
		}
	}
}

// Unescaped returns what w passes text on to if w is a Writer, and else w itself: for the control characters of
// our own, such as those of a progress bar.
func Unescaped(w io.Writer) io.Writer {
	if escaping, ok := w.(*Writer); ok {
		return escaping.w
	}
	return w
}
