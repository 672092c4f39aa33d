package kernel

import (
	"context"
	"sync"
	"sync/atomic"
)

// team is the goroutines of Parallel for those who call it often: a run allocates nothing. One run
// at a time.
type team struct {
	next  atomic.Int64
	items int
	work  func(worker, item int)
	ctx   context.Context
	wg    sync.WaitGroup
	// others are the bodies of the goroutines beside the caller's own.
	others []func()
}

func newTeam(threads int) *team {
	t := &team{}
	for w := 1; w < threads; w++ {
		t.others = append(t.others, func() {
			t.take(w)
			t.wg.Done()
		})
	}
	return t
}

func (t *team) threads() int { return len(t.others) + 1 }

func (t *team) take(worker int) {
	for t.ctx.Err() == nil {
		i := int(t.next.Add(1)) - 1
		if i >= t.items {
			return
		}
		t.work(worker, i)
	}
}

// run is Parallel on this team.
func (t *team) run(ctx context.Context, items int, work func(worker, item int)) error {
	t.ctx, t.items, t.work = ctx, items, work
	t.next.Store(0)
	for _, f := range t.others[:max(0, min(len(t.others), items-1))] {
		t.wg.Add(1)
		go f()
	}
	t.take(0)
	t.wg.Wait()
	t.ctx, t.work = nil, nil
	return ctx.Err()
}
