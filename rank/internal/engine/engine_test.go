package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestParallelErrors checks that Parallel returns the first error of the work, and context.Canceled if
// the context was cancelled before, even with a cause.
func TestParallelErrors(t *testing.T) {
	broken := errors.New("cannot count")
	ctx, cancel := context.WithCancelCause(t.Context())
	assert.Equal(t, broken, Parallel(ctx, 2, 50, func(_ context.Context, _, item int) error {
		if item == 7 {
			return broken
		}
		return nil
	}))
	stop := func(ctx context.Context, _, item int) error {
		if item == 7 {
			cancel(errors.New("the cause"))
			return ctx.Err()
		}
		return nil
	}
	assert.Equal(t, context.Canceled, Parallel(ctx, 2, 50, stop))
}
