package atomicfile

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

// stuck writes the first time, and then waits like a pipe that nothing reads.
type stuck struct {
	writes  chan string
	release chan struct{}
}

func (s stuck) Write(p []byte) (int, error) {
	if s.writes <- string(p); len(s.writes) > 1 {
		<-s.release
	}
	return len(p), nil
}

// After a cancellation, a writer waits once for a pipe that nothing reads, and then writes nothing more to it.
func TestPatient(t *testing.T) {
	s := stuck{make(chan string, 10), make(chan struct{})}
	defer close(s.release)
	ctx, cancel := context.WithCancel(t.Context())
	w := Patient(ctx, s)
	n, err := w.Write([]byte("one"))
	assert.Equal(t, 3, n)
	assert.NoError(t, err)
	cancel()
	for range 5 {
		_, err = w.Write([]byte("two"))
		assert.Equal(t, context.Canceled, err)
	}
	assert.Len(t, s.writes, 2)
}
