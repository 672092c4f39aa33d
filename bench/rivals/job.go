package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/synth"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/clustered"
)

// zipfName is the data set of YAGO3-10's shape that is made here.
const zipfName = "yago-shape"

// job is the evaluation that everyone does: the test split of a data set, both sides, three filters.
type job struct {
	row
	threads    int
	checkpoint *checkpoint.Checkpoint
	model      model.Model
	graph      *kg.Graph
	index      *kg.Index
	backend    *kernel.Backend
	tower      model.Tower
	n          int // candidates

	// Of mquine, to compare with.
	exact []rank.Rank

	// For the rivals in Go: distinct queries with their truths, and the candidates' features.
	queries []query
	truths  []truth
	phi     []float32 // [n][stride]
	stride  int
	sizes   []float64 // as the model's slack wants them
	q, c    []float32 // one block's queries, [block][stride], and scores, [block][n]: rivals run in turn
}

// query is a distinct query with its truths, truths[first:last] of the job.
type query struct {
	kg.Query
	first, last int
}

// truth is a true answer; place is its place in mquine's ranks: the triples of the split asked for
// tails, then for heads.
type truth struct{ answer, place int32 }

// openJob makes what is missing of the data set and the checkpoint under o.work, and opens them.
func (o *options) openJob(ctx context.Context) (*job, error) {
	backends, err := kernel.Available()
	if err != nil {
		return nil, err
	}
	j := &job{row: o.row, threads: o.threads, backend: backends[0]}
	data := o.data
	if data == zipfName {
		data = filepath.Join(o.work, zipfName)
		if err := o.makeZipf(ctx, data); err != nil {
			return nil, err
		}
	}
	g, err := kg.Open(ctx, data)
	if err != nil {
		return nil, err
	}
	folder := o.checkpoint
	if folder == "" {
		folder = filepath.Join(o.work, fmt.Sprintf("%s-%s-%d-%v-v%d", g.Name, o.model, o.dim, j.backend.Tier, clustered.Version))
		if err := o.makeCheckpoint(ctx, folder, g, j.backend); err != nil {
			return nil, err
		}
	}
	c, err := checkpoint.Open(ctx, folder)
	if err != nil {
		return nil, err
	}
	j.checkpoint, j.model = c, c.Model
	if j.graph, err = g.Relabel(c.Entities, c.Relations); err == nil {
		err = j.prepare(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return j, nil
}

func (o *options) makeZipf(ctx context.Context, folder string) error {
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fmt.Fprintf(o.log, "making %s\n", folder)
	g, _, err := synth.Zipf(ctx, synth.Config{Seed: 1})
	if err != nil {
		return err
	}
	return kg.Write(ctx, folder, g)
}

func (o *options) makeCheckpoint(ctx context.Context, folder string, g *kg.Graph, b *kernel.Backend) error {
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fmt.Fprintf(o.log, "making %s\n", folder)
	cfg := model.Config{Model: o.model, Dim: o.dim, Entities: g.Entities.Len(), Relations: g.Relations.Len()}
	m, err := clustered.New(ctx, cfg, g, 1, train.Machine{Backend: b, Threads: o.threads})
	if err != nil {
		return err
	}
	return checkpoint.Save(ctx, folder, m, g.Entities, g.Relations, map[string]string{"dataset": g.Name, "kind": "clustered"})
}

// prepare does what no one is timed for.
func (j *job) prepare(ctx context.Context) error {
	c := j.model.Config()
	j.row.data, j.row.model, j.row.dim = j.graph.Name, c.Model, c.Dim
	j.n, j.tower = c.Entities, j.model.Tower(kg.Tail)
	if j.tower.Features != model.OnEntity || j.model.Tower(kg.Head) != j.tower {
		return fmt.Errorf("no rival has candidates that depend on the query, as in %s", c.Model)
	}
	j.index = kg.NewIndex(j.graph)
	triples, err := j.graph.Triples(kg.Test)
	if err != nil {
		return err
	}
	j.queries, j.truths = distinct(triples)

	// Rows are padded with zeros to what the float64 scores of check want.
	j.stride = (j.tower.Phi + kernel.PairWidth - 1) / kernel.PairWidth * kernel.PairWidth
	j.phi = kernel.AlignedFloat32(j.n * j.stride)
	j.sizes = make([]float64, j.n)
	workers := j.workers()
	return kernel.Parallel(ctx, j.threads, j.n, func(w, e int) {
		workers[w].Features(kg.Tail, 0, []int32{int32(e)}, vector(j.phi[e*j.stride:][:j.tower.Phi]), j.sizes[e:e+1])
	})
}

// vector is one vector as a worker wants it.
func vector(x []float32) model.Rows {
	return model.Rows{Values: x, Width: len(x), Stride: len(x)}
}

// queryOf writes ψ of q and returns its slack.
func queryOf(w model.Worker, q kg.Query, psi []float32) model.Slack {
	slacks := make([]model.Slack, 1)
	w.Queries(q.Side, q.Relation, []int32{q.Anchor}, vector(psi), slacks)
	return slacks[0]
}

// workers returns one worker for each thread.
func (j *job) workers() []model.Worker {
	list := make([]model.Worker, j.threads)
	for i := range list {
		list[i] = j.model.NewWorker(j.backend)
	}
	return list
}

// distinct groups the queries of triples, so that equal ones are scored once.
func distinct(triples []kg.Triple) (queries []query, truths []truth) {
	type asked struct {
		kg.Query
		truth
	}
	var all []asked
	for i, side := range []kg.Side{kg.Tail, kg.Head} {
		for at, t := range triples {
			q, answer := t.Query(side)
			all = append(all, asked{q, truth{answer, int32(i*len(triples) + at)}})
		}
	}
	slices.SortFunc(all, func(a, b asked) int {
		return cmp.Or(cmp.Compare(a.Side, b.Side), cmp.Compare(a.Relation, b.Relation), cmp.Compare(a.Anchor, b.Anchor), cmp.Compare(a.place, b.place))
	})
	for i, a := range all {
		if n := len(queries); n == 0 || queries[n-1].Query != a.Query {
			queries = append(queries, query{a.Query, i, i})
		}
		queries[len(queries)-1].last++
		truths = append(truths, a.truth)
	}
	return queries, truths
}

// replaceFile writes a file in one step, so that a killed run leaves no half of it.
func replaceFile(path, text string) error { return renameio.WriteFile(path, []byte(text), 0o666) }
