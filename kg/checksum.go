package kg

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
)

// SHA256 returns the SHA-256 digest of all triples, in hexadecimal digits. It hashes the labels in
// lines head<TAB>relation<TAB>tail: the triples of train, then of valid and of test. The digest
// depends neither on identifiers nor on compression. For plain text files with LF line ends, the
// command "cat train.txt valid.txt test.txt | sha256sum" prints the same digest. After Restrict, it
// is the digest of the whole data set, not of the remaining triples.
func (g *Graph) SHA256(ctx context.Context) (string, error) {
	if g.whole != nil {
		return g.whole.SHA256(ctx)
	}
	digest := sha256.New()
	lines := bufio.NewWriterSize(digest, 1<<16)
	for _, triples := range g.Splits {
		for i, t := range triples {
			if i%(1<<16) == 0 && ctx.Err() != nil {
				return "", ctx.Err()
			}
			// Writing to a digest does not fail.
			_, _ = lines.WriteString(g.Entities.Label(t.Head))
			_ = lines.WriteByte('\t')
			_, _ = lines.WriteString(g.Relations.Label(t.Relation))
			_ = lines.WriteByte('\t')
			_, _ = lines.WriteString(g.Entities.Label(t.Tail))
			_ = lines.WriteByte('\n')
		}
	}
	_ = lines.Flush()
	return hex.EncodeToString(digest.Sum(nil)), nil
}
