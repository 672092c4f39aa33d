package compressed

import (
	"fmt"
	"io"

	"github.com/dustin/go-humanize"
)

// Limits bounds the contents of a compressed file, so a hostile or damaged file leads to an error
// instead of exhausting memory. The contents may have Expanded bytes, or Ratio times as many bytes as
// the file, whichever is more.
type Limits struct{ Expanded, Ratio int64 }

// DefaultLimits has a ratio far above the ratios of real data sets, which gzip compresses by factors of 3
// to 20.
var DefaultLimits = Limits{Expanded: 1 << 28, Ratio: 100}

// Bound returns a reader of the contents of a file, which fails with an ExpansionError if they are too
// long. It returns contents unchanged if the file is not compressed, or if its size is negative, which
// means unknown.
func (l Limits) Bound(contents io.Reader, path string, size int64) io.Reader {
	if !Is(path) || size < 0 {
		return contents
	}
	most := max(l.Expanded, l.Ratio*size)
	return &boundedReader{contents, most, ExpansionError{most, l.Ratio}}
}

// boundedReader fails with the error tooLong if the contents are longer than the number of bytes in
// left.
type boundedReader struct {
	io.Reader
	left    int64
	tooLong error
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, b.tooLong
	}
	return n, err
}

// ExpansionError says that the contents of a compressed file are too long. Its text follows the name
// of the file.
type ExpansionError struct{ most, ratio int64 }

func (e ExpansionError) Error() string {
	return fmt.Sprintf("expands to more than %s and %d times its size, which is too much: "+
		"decompress it yourself if you trust it", humanize.IBytes(uint64(e.most)), e.ratio)
}
