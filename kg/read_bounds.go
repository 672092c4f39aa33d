package kg

import (
	"fmt"
	"io"
	"math"

	"github.com/dustin/go-humanize"

	"github.com/mquine/mquine/internal/compressed"
)

// limits bounds the size of the input, so a hostile or damaged file leads to an error instead of
// exhausting memory.
type limits struct {
	// triples bounds a split, and labels bounds a vocabulary.
	triples, labels int
	// The text of a compressed file may have the number of bytes in expanded, or ratio times as
	// many bytes as the file, whichever is more.
	expanded, ratio int64
}

// defaultLimits keeps the number of triples below the limit of an Index, 2³² − 1. The ratio is far
// above the ratios of real data sets, which gzip compresses by factors of 3 to 20.
var defaultLimits = limits{triples: 1 << 30, labels: math.MaxInt32, expanded: 1 << 28, ratio: 100}

// bound returns a reader of a compressed file's text. The reader fails with an expansionError if
// the text is too long. If size is negative, the size of the file is unknown and there is no limit.
func (l limits) bound(text io.Reader, path string, size int64) io.Reader {
	if !compressed.Is(path) || size < 0 {
		return text
	}
	most := max(l.expanded, l.ratio*size)
	return &boundedReader{text, most, expansionError{most, l.ratio}}
}

// boundedReader fails with the error tooLong if a text is longer than the number of bytes in left.
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

type expansionError struct{ most, ratio int64 }

func (e expansionError) Error() string {
	return fmt.Sprintf("expands to more than %s and %d times its size, which is too much: "+
		"decompress it yourself if you trust it", humanize.IBytes(uint64(e.most)), e.ratio)
}
