package kg

import (
	"fmt"
	"io"
	"math"

	"github.com/dustin/go-humanize"
)

// limits bound what is read, so that a hostile or damaged file ends in an error and not in a full
// memory.
type limits struct {
	// triples is the largest number in a split, and labels that in a vocabulary.
	triples, labels int
	// A compressed file may expand to this many bytes, or to this many times its size if that is
	// more.
	expanded, ratio int64
}

// defaultLimits keeps the triples of all splits below the 2³² − 1 of an Index. No text of triples
// that was looked at comes near the ratio: gzip makes them 3 to 20 times smaller.
var defaultLimits = limits{triples: 1 << 30, labels: math.MaxInt32, expanded: 1 << 28, ratio: 100}

// bound returns the text of a file of that size, which may be unknown (negative), with an
// expansionError where it is longer than it may be.
func (l limits) bound(text io.Reader, path string, size int64) io.Reader {
	if !isCompressed(path) || size < 0 {
		return text
	}
	most := max(l.expanded, l.ratio*size)
	return &boundedReader{text, most, expansionError{most, l.ratio}}
}

// boundedReader returns an error after so many bytes.
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
	return fmt.Sprintf("expands to more than %s and %d times its size, as no text of triples should: uncompress it yourself if it is one",
		humanize.IBytes(uint64(e.most)), e.ratio)
}
