package abilities

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// scale says how a model's printed scores relate to an optimum.
type scale uint8

const (
	// distances are scores −D for a distance D ≥ 0. The optimum is 0.
	distances scale = iota
	// squares are scores −D².
	squares
	// products have no largest score. A threshold separates true from false.
	products
)

// subject is a model under test.
type subject struct {
	spec  *model.Spec
	scale scale
}

// parameters are the tensors of a model. The map rows holds the rows of each tensor by its name.
// Tensors that are missing from it are zero. If regions is not nil, it bounds the regions of the
// relations.
type parameters struct {
	dim     int
	hyper   map[string]float64
	rows    map[string][][]float64
	regions []region
}

// world is a model with tensors that a check may change.
type world struct {
	subject
	config     model.Config
	parameters []model.Parameter
	tensors    [][]float32
	random     *rand.Rand
}

// newWorld returns a model with zeros as parameters.
func (s subject) newWorld(g *graph, dim int, hyper map[string]float64) (*world, error) {
	c := model.Config{
		Model: s.spec.Name, Dim: dim, Entities: g.entities, Relations: g.relations, Hyper: map[string]float64{},
	}
	maps.Copy(c.Hyper, hyper)
	for _, h := range s.spec.Hyper { // the values of new models, without a margin and with phases in units of π
		switch _, given := c.Hyper[h.Key]; {
		case given:
		case h.Key == model.Gamma:
			c.Hyper[h.Key] = 0
		case h.Key == model.EmbeddingRange:
			c.Hyper[h.Key] = 1
		}
	}
	c = s.spec.Initial(c)
	list, err := s.spec.Parameters(c)
	if err != nil {
		return nil, err
	}
	w := &world{subject: s, config: c, parameters: list, random: rand.New(rand.NewPCG(1, 2))}
	for _, p := range list {
		w.tensors = append(w.tensors, make([]float32, p.Len()))
	}
	return w, nil
}

// set writes the tensors of x.
func (w *world) set(x parameters) error {
	known := 0
	for i, p := range w.parameters {
		rows, ok := x.rows[p.Name]
		if !ok {
			continue
		}
		known++
		if len(rows) > p.Rows {
			return fmt.Errorf("tensor %s has %d rows, not %d", p.Name, p.Rows, len(rows))
		}
		for k, row := range rows {
			if len(row) != p.Width() {
				return fmt.Errorf("a row of tensor %s has %d entries, not %d", p.Name, p.Width(), len(row))
			}
			for j, v := range row {
				w.tensors[i][k*p.Width()+j] = float32(v)
			}
		}
	}
	if known != len(x.rows) {
		return errors.New("a construction names a tensor that the model lacks")
	}
	return nil
}

// scores computes the scores of triples for one model.
type scores struct {
	model  model.Model
	worker model.Worker
	scale  scale
}

// build returns the scores for the current tensors.
func (w *world) build() (scores, error) {
	m, err := w.spec.New(w.config, w.tensors)
	if err != nil {
		return scores{}, err
	}
	b, err := kernel.For(kernel.Generic)
	if err != nil {
		return scores{}, err
	}
	return scores{m, m.NewWorker(b), w.scale}, nil
}

// of returns the score of a triple as the answer to a tail query: −D for a distance D.
func (s scores) of(t triple) float64 {
	q := kg.Query{Side: kg.Tail, Relation: int32(t.relation), Anchor: int32(t.head)}
	f := s.model.Score(s.worker.Reference(q, int32(t.tail)))
	if s.scale == squares {
		return -math.Sqrt(-f)
	}
	return f
}

// least and most return the least and the greatest score of the triples in list.
func (s scores) least(list []triple) float64 {
	f := math.Inf(1)
	for _, t := range list {
		f = min(f, s.of(t))
	}
	return f
}

func (s scores) most(list []triple) float64 {
	f := math.Inf(-1)
	for _, t := range list {
		f = max(f, s.of(t))
	}
	return f
}

// sum returns the sum of the scores.
func (s scores) sum(list []triple) (f float64) {
	for _, t := range list {
		f += s.of(t)
	}
	return f
}

// randomise draws the rows of the chosen axes from N(0, 1).
func (w *world) randomise(chosen func(model.Axis) bool) {
	for i, p := range w.parameters {
		if chosen(p.Axis) {
			for k := range w.tensors[i] {
				w.tensors[i][k] = w.draw(p, 0, 1)
			}
		}
	}
}

// draw returns v after a random change, whose standard deviation is step.
func (w *world) draw(p model.Parameter, v float32, step float64) float32 {
	v += float32(step * w.random.NormFloat64())
	if p.NonNegative {
		v = max(v, -v)
	}
	return v
}

// every and onlyEntities report whether a check may change the parameters of an axis.
func every(model.Axis) bool { return true }

func onlyEntities(a model.Axis) bool { return a == model.PerEntity }

// climb searches for tensors that make the goal large. It starts the given number of times with
// random rows of the chosen axes. Each step changes a row or an entry, and keeps the change if the
// goal grows. climb returns the largest goal, and stops early if this value exceeds enough.
func (w *world) climb(
	chosen func(model.Axis) bool, starts, steps int, enough float64, goal func(scores) float64,
) (float64, error) {
	best := math.Inf(-1)
	for range starts {
		w.randomise(chosen)
		s, err := w.build()
		if err != nil {
			return 0, err
		}
		now := goal(s)
		for range steps {
			if best = max(best, now); best > enough {
				return best, nil
			}
			undo := w.nudge(chosen)
			if s, err = w.build(); err != nil {
				return 0, err
			}
			if next := goal(s); next > now {
				now = next
			} else {
				undo()
			}
		}
		best = max(best, now)
	}
	return best, nil
}

// attack searches for tensors that break an inequality, in many steps.
func (w *world) attack(chosen func(model.Axis) bool, limit float64, ratio func(scores) float64) (float64, error) {
	return w.climb(chosen, 2, 1000, limit, ratio)
}

// nudge changes a row of a tensor, or one entry of it, and returns a function that restores it.
func (w *world) nudge(chosen func(model.Axis) bool) (undo func()) {
	i := w.random.IntN(len(w.parameters))
	for !chosen(w.parameters[i].Axis) {
		i = w.random.IntN(len(w.parameters))
	}
	p := w.parameters[i]
	from, n := w.random.IntN(p.Rows)*p.Width(), p.Width()
	if w.random.IntN(2) == 0 {
		from, n = from+w.random.IntN(n), 1
	}
	row := w.tensors[i][from:][:n]
	old := append([]float32{}, row...)
	step := math.Exp2(2 - float64(w.random.IntN(14)))
	for k, v := range row {
		row[k] = w.draw(p, v, step)
	}
	return func() { copy(row, old) }
}
