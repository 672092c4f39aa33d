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

// zipfName is the name of a synthetic data set of YAGO3-10's size.
const zipfName = "yago-shape"

// job is the evaluation that mquine and its rivals run: a test split, both sides, three filters.
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

	exact []rank.Rank // mquine's ranks

	// The following fields are for the rivals in Go: distinct queries with their targets, and the
	// candidates' features.
	queries []query
	targets []target
	phi     []float32 // [n][stride]
	stride  int
	sizes   []float64 // sizes of the candidates, for the model's slack
	q, c    []float32 // queries, [block][stride], and scores, [block][n], of a block; shared by the rivals
}

// query is one of a job's distinct queries. Its targets are targets[first:last] of the job.
type query struct {
	kg.Query
	first, last int
}

// target is the true answer to a triple's query. place is its index in mquine's ranks: the tail
// queries of all triples, then the head queries.
type target struct{ answer, place int32 }

// openJob opens the data set and the checkpoint. It creates them in o.work if they are missing.
func (o *options) openJob(ctx context.Context) (*job, error) {
	backend, err := kernel.New()
	if err != nil {
		return nil, err
	}
	j := &job{row: o.row, threads: o.threads, backend: backend}
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
	switch {
	case folder != "":
	case o.trained:
		if folder, err = o.makeTrained(ctx, g, train.Machine{Backend: j.backend, Threads: o.threads}); err != nil {
			return nil, err
		}
	default:
		name := fmt.Sprintf("%s-%s-%d-%v-v%d", g.Name, o.model, o.dim, j.backend.Tier, clustered.Version)
		folder = filepath.Join(o.work, name)
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
	fmt.Fprintf(o.log, "creating %s\n", folder)
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
	fmt.Fprintf(o.log, "creating %s\n", folder)
	cfg := model.Config{Model: o.model, Dim: o.dim, Entities: g.Entities.Len(), Relations: g.Relations.Len()}
	m, err := clustered.New(ctx, cfg, g, 1, train.Machine{Backend: b, Threads: o.threads})
	if err != nil {
		return err
	}
	notes := map[string]string{"dataset": g.Name, "kind": "clustered"}
	return checkpoint.Save(ctx, folder, m, g.Entities, g.Relations, notes)
}

// prepare does the work that is not timed: it groups the queries and computes the candidates'
// features.
func (j *job) prepare(ctx context.Context) error {
	c := j.model.Config()
	j.row = row{j.graph.Name, c.Model, c.Dim, j.checkpoint.Metadata["training"] != ""}
	j.n, j.tower = c.Entities, j.model.Tower(kg.Tail)
	if j.tower.Features != model.OnEntity || j.model.Tower(kg.Head) != j.tower {
		return fmt.Errorf("no rival supports candidate features that depend on the query, as in %s", c.Model)
	}
	if j.tower.Psi != j.tower.Phi {
		return fmt.Errorf("no rival supports vectors ψ and φ of different lengths, which %s has", c.Model)
	}
	var err error
	if j.index, err = kg.NewIndex(ctx, j.graph); err != nil {
		return err
	}
	triples, err := j.graph.Triples(kg.Test)
	if err != nil {
		return err
	}
	j.queries, j.targets = distinct(triples)

	// The float64 scores in check need rows that are padded with zeros.
	j.stride = (j.tower.Phi + kernel.PairWidth - 1) / kernel.PairWidth * kernel.PairWidth
	j.phi = kernel.AlignedFloat32(j.n * j.stride)
	j.sizes = make([]float64, j.n)
	workers := j.workers()
	return kernel.Parallel(ctx, j.threads, j.n, func(w, e int) {
		phi := vector(j.phi[e*j.stride:][:j.tower.Phi])
		workers[w].Features(kg.Tail, 0, []int32{int32(e)}, phi, j.sizes[e:e+1])
	})
}

// vector returns x as a single row.
func vector(x []float32) model.Rows {
	return model.Rows{Values: x, Width: len(x), Stride: len(x)}
}

// queryOf computes ψ of q and returns its slack.
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

// distinct returns the distinct queries of the triples on both sides, and their targets, ordered by
// query.
func distinct(triples []kg.Triple) (queries []query, targets []target) {
	type asked struct {
		kg.Query
		target
	}
	var all []asked
	for i, side := range []kg.Side{kg.Tail, kg.Head} {
		for at, t := range triples {
			q, answer := t.Query(side)
			all = append(all, asked{q, target{answer, int32(i*len(triples) + at)}})
		}
	}
	slices.SortFunc(all, func(a, b asked) int {
		return cmp.Or(cmp.Compare(a.Side, b.Side), cmp.Compare(a.Relation, b.Relation),
			cmp.Compare(a.Anchor, b.Anchor), cmp.Compare(a.place, b.place))
	})
	for i, a := range all {
		if n := len(queries); n == 0 || queries[n-1].Query != a.Query {
			queries = append(queries, query{a.Query, i, i})
		}
		queries[len(queries)-1].last++
		targets = append(targets, a.target)
	}
	return queries, targets
}

// replaceFile writes a file atomically.
func replaceFile(path, text string) error { return renameio.WriteFile(path, []byte(text), 0o666) }
