package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/ceiling"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/rank"
)

// loads measures how fast a data set is read and how fast its known answers are indexed.
func loads(s *suite) []Benchmark {
	var list []Benchmark
	for _, sh := range shapes {
		benchmark := func(family string, run func(context.Context, *testing.B) error) Benchmark {
			return Benchmark{Name: name(family, "data", sh.name), Quick: sh.quick(), data: sh.data, run: run}
		}
		list = append(list,
			benchmark("Load", func(ctx context.Context, b *testing.B) error {
				g, err := s.fixtures.open(ctx, sh)
				if err != nil {
					return err
				}
				dir := filepath.Join(b.TempDir(), "data")
				if err := kg.Write(ctx, dir, g); err != nil {
					return err
				}
				bytes, err := folderSize(dir)
				if err != nil {
					return err
				}
				for b.Loop() {
					if _, err := kg.Open(ctx, dir+string(filepath.Separator)); err != nil {
						return err
					}
				}
				perSecond(b, "triples/s", count(g))
				perSecond(b, "GB/s", float64(bytes)/1e9)
				return nil
			}),
			benchmark("Index", func(ctx context.Context, b *testing.B) error {
				g, err := s.fixtures.open(ctx, sh)
				if err != nil {
					return err
				}
				for b.Loop() {
					if _, err := kg.NewIndex(ctx, g); err != nil {
						return err
					}
				}
				perSecond(b, "triples/s", count(g))
				return nil
			}),
		)
	}
	return list
}

// job is a checkpoint to rank.
type job struct {
	shape shape
	model string
	dim   int
}

// jobs lists a job with MQuinE for every shape, with the paper's dimensions except for the small
// graph. For one shape, it also lists jobs with a model for each of the comparisons L1, Dot,
// GroupNorm and Phase.
func jobs() []job {
	var list []job
	dims := map[string]int{"small": 20, "fb15k-237": 38, "wn18rr": 35, "yago3-10": 18}
	for _, sh := range shapes {
		list = append(list, job{sh, "mquine", dims[strings.TrimSuffix(sh.name, "-like")]})
		if sh.name == "fb15k-237-like" {
			for _, m := range []string{"transe-l1", "complex", "rotate", "protate"} {
				list = append(list, job{sh, m, dimOf(m)})
			}
		}
	}
	return list
}

// benchmark returns a benchmark of the job, which the quick subset includes for the small graph.
func (j job) benchmark(run func(context.Context, *testing.B) error, family string, pairs ...any) Benchmark {
	pairs = append(pairs, "data", j.shape.name, "model", j.model, "dim", j.dim)
	return Benchmark{Name: name(family, pairs...), Quick: j.shape.quick(), data: j.shape.data, run: run}
}

// opens measures how fast a checkpoint is opened. Opening maps it, checks every parameter and reads
// the vocabularies.
func opens(s *suite) []Benchmark {
	var list []Benchmark
	for _, j := range jobs() {
		open := func(ctx context.Context, b *testing.B) error {
			sub, err := s.fixtures.with(ctx, j.shape, j.model, j.dim)
			if err != nil {
				return err
			}
			bytes, err := folderSize(sub.checkpoint.Path)
			if err != nil {
				return err
			}
			for b.Loop() {
				c, err := checkpoint.Open(ctx, sub.checkpoint.Path)
				if err != nil {
					return err
				}
				c.Close()
			}
			perSecond(b, "GB/s", float64(bytes)/1e9)
			return nil
		}
		list = append(list, j.benchmark(open, "Open"))
	}
	return list
}

// evaluations measures the ranking of test triples on both sides under every filter, on all
// threads. Pack is the part before the first query: computing and packing the features of all
// candidates.
//
// pct-peak is the rate of the terms in the scores of all distinct queries, as a share of the
// comparison's ceiling on all threads. The ceiling is measured before and after each ranking. Terms
// that early exit skips count too, so the share may exceed 100.
func evaluations(s *suite) []Benchmark {
	var list []Benchmark
	for _, backend := range s.backends {
		if backend.Tier == kernel.Generic && !s.best(backend) {
			continue // it would take minutes
		}
		for _, j := range jobs() {
			both := []Benchmark{
				j.benchmark(func(ctx context.Context, b *testing.B) error { return pack(ctx, b, s, j, backend) },
					"Pack", "tier", backend.Tier),
				j.benchmark(func(ctx context.Context, b *testing.B) error { return evaluate(ctx, b, s, j, backend) },
					"Evaluate", "tier", backend.Tier),
			}
			for i := range both {
				both[i].Quick = both[i].Quick && s.best(backend)
			}
			list = append(list, both...)
		}
	}
	return list
}

// pack measures the part of a ranking before the first query.
func pack(ctx context.Context, b *testing.B, s *suite, j job, backend *kernel.Backend) error {
	sub, err := s.fixtures.with(ctx, j.shape, j.model, j.dim)
	if err != nil {
		return err
	}
	m := sub.checkpoint.Model
	var took time.Duration
	rounds := 0
	for b.Loop() {
		options := rank.Options{Backend: backend, Threads: threads()}
		ranking, err := rank.Run(ctx, m, sub.index, sub.triples[:1], options)
		if err != nil {
			return err
		}
		took += ranking.Stats.Pack
		rounds++
	}
	entities, perRound := float64(m.Config().Entities), took.Seconds()/float64(rounds)
	b.ReportMetric(1e9*perRound, "ns/op")
	b.ReportMetric(entities/perRound, "entities/s")
	b.ReportMetric(entities*float64(4*m.Tower(kg.Tail).Phi)/perRound/1e9, "GB/s")
	return nil
}

// evaluate measures whole rankings.
func evaluate(ctx context.Context, b *testing.B, s *suite, j job, backend *kernel.Backend) error {
	sub, err := s.fixtures.with(ctx, j.shape, j.model, j.dim)
	if err != nil {
		return err
	}
	m := sub.checkpoint.Model
	tower := m.Tower(kg.Tail)
	peakRate := ceiling.Terms(backend, tower.Compare).Runner(threads())
	var stats rank.Stats
	var bytes uint64
	var peak float64
	rounds := 0
	for b.Loop() {
		b.StopTimer()
		peak += peakRate(5 * time.Millisecond)
		before := allocated()
		b.StartTimer()
		ranking, err := rank.Run(ctx, m, sub.index, sub.triples, rank.Options{Backend: backend, Threads: threads()})
		if err != nil {
			return err
		}
		b.StopTimer()
		bytes += allocated() - before
		peak += peakRate(5 * time.Millisecond)
		b.StartTimer()
		stats = ranking.Stats
		rounds++
	}
	seconds := b.Elapsed().Seconds() / float64(rounds)
	terms := float64(stats.UniqueQueries) * float64(m.Config().Entities) * float64(tower.Terms())
	b.ReportMetric(float64(stats.Queries)/seconds, "queries/s")
	b.ReportMetric(float64(bytes)/float64(rounds*stats.Queries), "B/query")
	b.ReportMetric(terms*tower.Compare.Flops()/seconds/1e9, "GFLOP/s")
	b.ReportMetric(100*terms/seconds/(peak/float64(2*rounds)), "pct-peak")
	return nil
}

// predictions measures how fast the ten best answers to each of a few queries are found.
func predictions(s *suite) []Benchmark {
	const queries, best = 32, 10
	var list []Benchmark
	for _, j := range jobs() {
		predict := func(ctx context.Context, b *testing.B) error {
			sub, err := s.fixtures.with(ctx, j.shape, j.model, j.dim)
			if err != nil {
				return err
			}
			asked := make([]kg.Query, queries)
			for i := range asked {
				asked[i], _ = sub.triples[i].Query(kg.Side(i % 2))
			}
			before, rounds := allocated(), 0
			for b.Loop() {
				top := rank.Top{K: best, FilterKnown: true}
				options := rank.Options{Backend: s.backends[0], Threads: threads()}
				lists, err := rank.Predict(ctx, sub.checkpoint.Model, sub.index, asked, top, options)
				if err != nil {
					return err
				}
				if len(lists) != queries {
					return fmt.Errorf("%d predictions for %d queries", len(lists), queries)
				}
				rounds++
			}
			perSecond(b, "queries/s", queries)
			b.ReportMetric(float64(allocated()-before)/float64(rounds*queries), "B/query")
			return nil
		}
		list = append(list, j.benchmark(predict, "Predict", "tier", s.backends[0].Tier))
	}
	return list
}

// perSecond reports a rate, given the amount of work in one iteration.
func perSecond(b *testing.B, unit string, amount float64) {
	b.ReportMetric(amount*float64(b.N)/b.Elapsed().Seconds(), unit)
}

// count returns the number of triples in all splits.
func count(g *kg.Graph) (n float64) {
	for _, split := range g.Splits {
		n += float64(len(split))
	}
	return n
}

// allocated returns how many bytes the process has allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// folderSize returns the total size of the files directly in a folder.
func folderSize(dir string) (bytes int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return 0, err
		}
		bytes += info.Size()
	}
	return bytes, nil
}
