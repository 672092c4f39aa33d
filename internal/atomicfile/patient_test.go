package atomicfile

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// After a cancellation, a writer waits at most once for a pipe that nothing reads.
func TestPatient(t *testing.T) {
	reader, writer := io.Pipe()
	defer reader.Close()
	ctx, cancel := context.WithCancel(t.Context())
	w := Patient(ctx, writer)
	go func() { _, _ = io.ReadFull(reader, make([]byte, 3)) }()
	n, err := w.Write([]byte("one"))
	assert.Equal(t, 3, n)
	assert.NoError(t, err)
	cancel()
	start := time.Now()
	for range 5 {
		_, err = w.Write([]byte("two"))
		assert.Equal(t, context.Canceled, err)
	}
	assert.GreaterOrEqual(t, time.Since(start), patience)
	assert.Less(t, time.Since(start), 3*patience)
}
