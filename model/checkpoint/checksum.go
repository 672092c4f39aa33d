package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"runtime"
	"slices"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model/checkpoint/internal/mapped"
)

// checksum returns the checksum of the parameters, in hex. It takes the SHA-256 of every MiB of
// every tensor, and returns the SHA-256 of these hashes. Hashing in pieces keeps all cores busy.
func checksum(ctx context.Context, tensors [][]float32) (string, error) {
	var pieces [][]float32
	for _, values := range tensors {
		pieces = slices.AppendSeq(pieces, slices.Chunk(values, 1<<20/4))
	}
	hashes := make([]byte, len(pieces)*sha256.Size)
	err := kernel.Parallel(ctx, runtime.GOMAXPROCS(0), len(pieces), func(_, i int) {
		hash := sha256.Sum256(mapped.Bytes(pieces[i]))
		copy(hashes[i*sha256.Size:], hash[:])
	})
	sum := sha256.Sum256(hashes)
	return hex.EncodeToString(sum[:]), err
}
