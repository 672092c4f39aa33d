package atomicfile

import (
	"context"
	"io"
)

// Stoppable returns a writer to w whose Write fails once the context is cancelled.
func Stoppable(ctx context.Context, w io.Writer) io.Writer { return stoppable{ctx, w} }

type stoppable struct {
	ctx context.Context
	w   io.Writer
}

func (s stoppable) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.w.Write(p)
}
