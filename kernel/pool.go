package kernel

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"

	"github.com/mquine/mquine/internal/fault"
)

// team is the goroutines of Parallel for those who call it often: a run allocates nothing. One run
// at a time.
type team struct {
	next  atomic.Int64
	items int
	work  func(worker, item int)
	ctx   context.Context
	wg    sync.WaitGroup
	mu    sync.Mutex // guards fault
	fault error      // that work met in a mapped file
	// others are the bodies of the goroutines beside the caller's own.
	others []func()
}

func newTeam(threads int) *team {
	t := &team{}
	for w := 1; w < threads; w++ {
		t.others = append(t.others, func() {
			t.join(w)
			t.wg.Done()
		})
	}
	return t
}

func (t *team) threads() int { return len(t.others) + 1 }

// join does a share of the work. A fault in a mapped file ends the work of all.
func (t *team) join(worker int) {
	if err := t.take(worker); err != nil {
		t.next.Store(int64(t.items))
		t.mu.Lock()
		defer t.mu.Unlock()
		t.fault = err
	}
}

func (t *team) take(worker int) (err error) {
	defer fault.Guard().Catch(&err)
	for t.ctx.Err() == nil {
		i := int(t.next.Add(1)) - 1
		if i >= t.items {
			break
		}
		t.work(worker, i)
	}
	return nil
}

// run is Parallel on this team.
func (t *team) run(ctx context.Context, items int, work func(worker, item int)) error {
	t.ctx, t.items, t.work = ctx, items, work
	t.next.Store(0)
	for _, f := range t.others[:max(0, min(len(t.others), items-1))] {
		t.wg.Add(1)
		go f()
	}
	t.join(0)
	t.wg.Wait()
	err := cmp.Or(t.fault, ctx.Err())
	t.ctx, t.work, t.fault = nil, nil, nil
	return err
}
