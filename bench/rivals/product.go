package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
)

// scorer computes the scores of m queries, the rows of q, for all n candidates and writes them to
// c, [m][n].
type scorer interface {
	score(c, q []float32, m int) error
	about() string
}

// matrixRival writes the scores for a block of distinct queries to a matrix and then counts in that
// matrix.
type matrixRival struct {
	*job
	scorer
	block   int
	workers []model.Worker
}

// blocks returns the block sizes to try. It leaves out large blocks if their scores need too much
// memory.
func (j *job) blocks() []int {
	const most = 64 << 20 // scores
	return slices.DeleteFunc([]int{64, 128, 256, 512, 1024}, func(m int) bool { return m > 64 && m*j.n > most })
}

// newMatrixRival returns a rival with the fastest of the given block sizes.
func newMatrixRival(ctx context.Context, j *job, s scorer, sizes []int) (*matrixRival, error) {
	r := &matrixRival{job: j, scorer: s, workers: j.workers()}
	if most := slices.Max(sizes); len(j.c) < most*j.n {
		j.q, j.c = kernel.AlignedFloat32(most*j.stride), kernel.AlignedFloat32(most*j.n)
	}
	if len(sizes) == 1 {
		r.block = sizes[0]
		return r, nil
	}
	fastest := 0.0
	for _, size := range sizes {
		trial := *r
		trial.block = size
		for range 2 {
			o, err := trial.rank(ctx, 1)
			if err != nil {
				return nil, err
			}
			if rate := float64(len(o.counts)) / o.elapsed.Seconds(); rate > fastest {
				fastest, r.block = rate, size
			}
		}
	}
	return r, nil
}

func (r *matrixRival) about() string {
	return fmt.Sprintf("%s, blocks of %d queries", r.scorer.about(), r.block)
}

func (r *matrixRival) close() {
	if o, ok := r.scorer.(*oneDNN); ok {
		o.close()
	}
}

func (r *matrixRival) rank(ctx context.Context, limit int) (*outcome, error) {
	o := &outcome{counts: make([]count, 0, len(r.targets))}
	// limit is a number of targets, but sample needs a number of queries.
	starts := sample(len(r.queries), r.block, limit*len(r.queries)/len(r.targets)+min(limit, 1))
	begin := time.Now()
	for _, at := range starts {
		queries := r.queries[at:min(at+r.block, len(r.queries))]
		err := kernel.Parallel(ctx, r.threads, len(queries), func(w, i int) {
			queryOf(r.workers[w], queries[i].Query, r.q[i*r.stride:][:r.tower.Psi])
		})
		if err != nil {
			return nil, err
		}
		if err := r.score(r.c, r.q, len(queries)); err != nil {
			return nil, err
		}
		counting := time.Now()
		first := len(o.counts)
		o.counts = o.counts[:first+queries[len(queries)-1].last-queries[0].first]
		counts := o.counts[first:]
		base := queries[0].first
		err = kernel.Parallel(ctx, r.threads, len(queries), func(_, i int) {
			q := queries[i]
			r.count(q, r.c[i*r.n:(i+1)*r.n], counts[q.first-base:q.last-base])
		})
		if err != nil {
			return nil, err
		}
		o.counting += time.Since(counting)
	}
	o.elapsed = time.Since(begin)
	return o, nil
}

// count counts the candidates above each target of a query, and subtracts the known answers.
func (j *job) count(q query, scores []float32, counts []count) {
	known := j.index.Answers(q.Query)
	for i, t := range j.targets[q.first:q.last] {
		want := scores[t.answer]
		better, notWorse := countScores(scores, want)
		c := count{place: t.place}
		for f := range rank.NumFilters {
			c.better[f], c.equal[f] = better, notWorse-better-1
		}
		for k, e := range known.Entities {
			if e == t.answer || scores[e] < want {
				continue
			}
			for f, removed := range removedBy(known.Splits[k]) {
				if !removed {
					continue
				}
				if scores[e] > want {
					c.better[f]--
				} else {
					c.equal[f]--
				}
			}
		}
		counts[i] = c
	}
}

// countScores returns the number of scores above want and the number of scores not below it. It
// compiles to code without branches.
func countScores(scores []float32, want float32) (better, notWorse int32) {
	var b0, b1, b2, b3, n0, n1, n2, n3 int32
	for ; len(scores) >= 4; scores = scores[4:] {
		s0, s1, s2, s3 := scores[0], scores[1], scores[2], scores[3]
		b0 += bit(s0 > want)
		n0 += bit(s0 >= want)
		b1 += bit(s1 > want)
		n1 += bit(s1 >= want)
		b2 += bit(s2 > want)
		n2 += bit(s2 >= want)
		b3 += bit(s3 > want)
		n3 += bit(s3 >= want)
	}
	for _, s := range scores {
		b0 += bit(s > want)
		n0 += bit(s >= want)
	}
	return b0 + b1 + b2 + b3, n0 + n1 + n2 + n3
}

func bit(b bool) int32 {
	if b {
		return 1
	}
	return 0
}
