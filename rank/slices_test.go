package rank

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/rank/internal/engine"
)

// fakeEngine loads slices that contain only their first candidate.
type fakeEngine struct {
	engine.Engine
	buffers int
	loads   chan int // receives the first candidate of each slice
	busy    []atomic.Bool
	fail    int // the first candidate of the slice that cannot be loaded
}

type fakeCandidates struct {
	engine.Candidates
	first, buffer int
}

func (e *fakeEngine) Slices() (size, buffers int) { return 10, e.buffers }

func (e *fakeEngine) Load(_ context.Context, buffer int, _ engine.Pass, s engine.Set) (engine.Candidates, error) {
	first := int(s.Entity(0))
	if first == e.fail {
		return nil, errors.New("cannot load")
	}
	if e.busy[buffer].Swap(true) {
		return nil, errors.New("the buffer is in use")
	}
	e.loads <- first
	return fakeCandidates{first: first, buffer: buffer}, nil
}

// TestSlicesAreLoadedAhead checks that, with two buffers, the next slice is loaded while a slice is
// counted, and that no further slice is loaded ahead.
func TestSlicesAreLoadedAhead(t *testing.T) {
	for _, buffers := range []int{1, 2} {
		e := &fakeEngine{buffers: buffers, loads: make(chan int, 10), busy: make([]atomic.Bool, buffers), fail: -1}
		passes := slices.Repeat([]engine.Pass{{Candidates: engine.Range(5, 38)}}, 2)
		j := &engine.Job{Plan: engine.Plan{Passes: passes}}
		s := &session{job: j, engine: e}
		var counted, loaded []int
		_, _, err := s.eachSlice(t.Context(), func(_ context.Context, _ engine.Pass, c engine.Candidates) error {
			counted = append(counted, c.(fakeCandidates).first)
			for want := min(len(counted)-1+buffers, 8); len(loaded) < want; { // the slices so far, and one ahead
				select {
				case first := <-e.loads:
					loaded = append(loaded, first)
				case <-time.After(time.Minute):
					return errors.New("the next slice waits for this one")
				}
			}
			time.Sleep(time.Millisecond)
			assert.Empty(t, e.loads, "no free buffer")
			e.busy[c.(fakeCandidates).buffer].Store(false)
			return nil
		})
		require.NoError(t, err)
		want := []int{5, 15, 25, 35, 5, 15, 25, 35}
		assert.Equal(t, want, counted)
		assert.Equal(t, want, loaded)
	}
}

// TestSlicesEndWithTheFirstError checks that a session ends with the first error from loading a
// slice or from working on it, and when its context ends.
func TestSlicesEndWithTheFirstError(t *testing.T) {
	j := &engine.Job{Plan: engine.Plan{Passes: []engine.Pass{{Candidates: engine.Range(0, 100)}}}}
	newSession := func(fail int) *session {
		e := &fakeEngine{buffers: 2, loads: make(chan int, 10), busy: make([]atomic.Bool, 2), fail: fail}
		return &session{job: j, engine: e}
	}
	s := newSession(30)
	var counted []int
	_, _, err := s.eachSlice(t.Context(), func(_ context.Context, _ engine.Pass, c engine.Candidates) error {
		counted = append(counted, c.(fakeCandidates).first)
		s.engine.(*fakeEngine).busy[c.(fakeCandidates).buffer].Store(false)
		return nil
	})
	assert.EqualError(t, err, "cannot load")
	assert.True(t, slices.IsSorted(counted) && len(counted) <= 3, "%v", counted)

	broken := errors.New("cannot count")
	_, _, err = newSession(-1).eachSlice(t.Context(),
		func(ctx context.Context, _ engine.Pass, _ engine.Candidates) error {
			return engine.Parallel(ctx, 2, 50, func(_ context.Context, _, item int) error {
				if item == 7 {
					return broken
				}
				return nil
			})
		})
	assert.ErrorIs(t, err, broken)

	ctx, cancel := context.WithCancel(t.Context())
	_, _, err = newSession(-1).eachSlice(ctx, func(context.Context, engine.Pass, engine.Candidates) error {
		cancel()
		return ctx.Err()
	})
	assert.ErrorIs(t, err, context.Canceled)
}
