package kg

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"

	"github.com/mquine/mquine/internal/compressed"
	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
)

// maxLine is the length in bytes of the longest line that most readers accept, including its line end.
const maxLine = 1 << 18

// lines reads a text file line by line. Lines end with LF or CRLF, which is optional after the last
// line. lines skips a UTF-8 byte order mark at the start.
type lines struct {
	ctx  context.Context
	path string // for messages
	text *bufio.Reader
	n    int // number of the current line, from 1
	// longest is the length in bytes of the longest line, at least maxLine.
	longest int
	long    []byte // a line that is longer than maxLine
	// unnamed says that path is not the name of a file.
	unnamed bool
	// advance is called occasionally, with the number of lines since the previous call.
	advance func(lines int64)
}

// readFile opens a text file, compressed or not, and passes its lines to the function read.
func (o opening) readFile(ctx context.Context, path string, read func(*lines) error) error {
	f, err := input.Open(ctx, path)
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, text.Cause(err))
	}
	defer f.Close()
	stored := &counter{Reader: f}
	content, err := compressed.NewReader(stored, path)
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, cmp.Or(ctx.Err(), text.Cause(err)))
	}
	defer content.Close()
	l := newLines(ctx, path, o.Bound(content, path, f.Size()))
	l.advance = func(lines int64) { o.progress.add(stored.take(), lines) }
	return read(l)
}

// ReadRecords passes the number and the text of each line of a file to the function read. The file may
// be compressed (.gz, .zst). A blank line is an error unless it is the last line. ReadRecords stops at
// the first error, which names the file and the line.
func ReadRecords(ctx context.Context, path string, read func(n int, line string) error) error {
	return newOpening().readFile(ctx, path, func(l *lines) error { return l.numbered(read) })
}

// ParseRecords is like ReadRecords, but reads uncompressed text. Errors call the text by the given name, which
// need not be the name of a file.
func ParseRecords(ctx context.Context, name string, text io.Reader, read func(n int, line string) error) error {
	l := newLines(ctx, name, text)
	l.unnamed = true
	return l.numbered(read)
}

// numbered passes the number and the text of each line to the function read, as ReadRecords does.
func (l *lines) numbered(read func(n int, line string) error) error {
	return l.records(func(line []byte) error { return read(l.n, string(line)) })
}

// records passes each line, as record returns it, to the function read. It stops at the first error and
// adds the path and the number of the line.
func (l *lines) records(read func(line []byte) error) error { return l.each(l.record, read) }

// each is like records, for the lines that the function next returns.
func (l *lines) each(next func() ([]byte, error), read func(line []byte) error) error {
	for {
		line, err := next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := read(line); err != nil {
			return l.errorf("%w", err)
		}
	}
}

// counter counts the bytes that pass through it.
type counter struct {
	io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// take returns the number of bytes since the previous call.
func (c *counter) take() int64 {
	n := c.n
	c.n = 0
	return n
}

func newLines(ctx context.Context, path string, text io.Reader) *lines {
	return &lines{
		ctx: ctx, path: path, text: bufio.NewReaderSize(text, maxLine), longest: maxLine, advance: func(int64) {},
	}
}

// next returns the next line without its line end, or io.EOF. The line is valid until the next
// call.
func (l *lines) next() ([]byte, error) {
	const linesPerCheck, linesPerReport = 1 << 12, 1 << 16
	if l.n%linesPerCheck == 0 {
		if err := l.ctx.Err(); err != nil {
			return nil, fmt.Errorf("reading %s: %w", l.path, err)
		}
		if l.n%linesPerReport == 0 && l.n > 0 {
			l.advance(linesPerReport)
		}
	}
	line, err := l.slice()
	if err == io.EOF && len(line) == 0 {
		l.advance(int64(l.n % linesPerReport))
		return nil, io.EOF
	}
	l.n++
	if l.n == 1 {
		if err := l.checkCompression(line); err != nil {
			return nil, err
		}
	}
	switch {
	case err == nil:
		line = line[:len(line)-1]
	case l.ctx.Err() != nil: // a decompressor may return another error
		return nil, fmt.Errorf("reading %s: %w", l.path, l.ctx.Err())
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, l.errorf("line is longer than %s", humanize.IBytes(uint64(l.longest)))
	case errors.As(err, new(compressed.ExpansionError)):
		return nil, fmt.Errorf("%s %w", l.path, err)
	case errors.Is(err, compressed.ErrTrailing):
		return nil, fmt.Errorf("%s: %w: remove them, or fetch the file again", l.path, err)
	case err != io.EOF:
		return nil, l.errorf("cannot read any further (%w): the file may be damaged or truncated; fetch it again",
			compressed.UnexpectedEnd(text.Cause(err)))
	}
	if len(line) > 0 && line[len(line)-1] == '\r' {
		line = line[:len(line)-1]
	}
	if l.n == 1 {
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	return line, nil
}

// slice is like ReadSlice('\n') of a bufio.Reader whose buffer holds l.longest bytes.
func (l *lines) slice() ([]byte, error) {
	line, err := l.text.ReadSlice('\n')
	if err != bufio.ErrBufferFull || l.longest <= maxLine {
		return line, err
	}
	l.long = append(l.long[:0], line...)
	for err == bufio.ErrBufferFull && len(l.long) < l.longest {
		line, err = l.text.ReadSlice('\n')
		l.long = append(l.long, line...)
	}
	if len(l.long) > l.longest {
		err = bufio.ErrBufferFull
	}
	return l.long, err
}

// checkCompression returns an error if the first line is the start of a compressed file whose name does
// not say so, or of an archive in a format that mquine does not read. No such start begins a label.
func (l *lines) checkCompression(first []byte) error {
	switch name, extension := compressed.Detect(first); {
	case name == "" || compressed.Is(l.path):
	case l.unnamed:
		return fmt.Errorf("%s is compressed with %s: decompress it first", l.path, name)
	default:
		return fmt.Errorf("%s is compressed with %s, but its name does not end with %s: rename it",
			l.path, name, extension)
	}
	archive := ""
	switch {
	case bytes.HasPrefix(first, []byte("PK\x03\x04")):
		archive = "zip"
	case bytes.HasPrefix(first, []byte("BZh")) && len(first) >= 10 && string(first[4:10]) == "1AY&SY":
		archive = "bzip2" // BZh alone could begin a label; a digit and the start of a block follow it
	default:
		return nil
	}
	return fmt.Errorf("%s is compressed with %s, which mquine does not read: decompress it first", l.path, archive)
}

// record is like next, but serves formats in which every line is a record. A blank line is an error
// unless it is the last line.
func (l *lines) record() ([]byte, error) { return l.notBlank("blank line: remove it") }

// notBlank is like record, with the given message about a blank line.
func (l *lines) notBlank(message string) ([]byte, error) {
	line, err := l.next()
	if err != nil || len(line) > 0 {
		return line, err
	}
	blank := l.n
	if _, err := l.next(); err != nil {
		return nil, err
	}
	l.n = blank
	return nil, l.errorf("%s", message)
}

// errorf returns an error that begins with the path and the number of the current line.
func (l *lines) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: "+format, append([]any{l.path, l.n}, args...)...)
}

// splitFields splits a line at its tabs into exactly len(fields) fields. The names describe the fields
// in errors.
func splitFields(line []byte, fields [][]byte, names string) error {
	rest := line
	for i := range fields[:len(fields)-1] {
		tab := bytes.IndexByte(rest, '\t')
		if tab < 0 {
			return wrongFields(i+1, len(fields), names)
		}
		fields[i], rest = rest[:tab], rest[tab+1:]
	}
	if more := bytes.Count(rest, []byte{'\t'}); more > 0 {
		return wrongFields(len(fields)+more, len(fields), names)
	}
	fields[len(fields)-1] = rest
	return nil
}

func wrongFields(got, want int, names string) error {
	return fmt.Errorf("%s instead of %d: a line is %s, separated by tabs",
		text.Count(got, "field", "fields"), want, names)
}
