package abilities

import (
	"errors"
	"fmt"
	"math"
)

const (
	// optimal is the greatest distance that a check accepts for a true triple. It is not 0, because
	// float32 rounds angles and unit vectors.
	optimal = 0x1p-20
	// apart is the least distance that a check accepts for a false triple. For products, it is the
	// least accepted difference between the scores of true and false triples.
	apart = 1.0 / 16
	// stretch is the largest accepted ratio of the distance of a conclusion to the sum of the
	// distances of its premises.
	stretch = 4
	// rounding is the relative error that a check of an exact inequality allows.
	rounding = 1e-5
)

// construction is a yes: parameters that express the pattern.
type construction func(p *Pattern) parameters

func (construction) verdict() Verdict { return Yes }

func (c construction) check(s subject, p *Pattern) error {
	x := c(p)
	w, err := s.newWorld(&p.graph, x.dim, x.hyper)
	if err != nil {
		return err
	}
	if err := w.set(x); err != nil {
		return err
	}
	f, err := w.build()
	if err != nil {
		return err
	}
	if x.regions != nil {
		if err := f.check(x.regions, p); err != nil {
			return err
		}
		return w.followsAll(p)
	}
	worst, best := f.least(p.truths), f.most(p.falsehoods)
	switch {
	case s.scale == products && !(worst >= best+apart):
		return fmt.Errorf("the worst true triple scores %g, and the best false triple %g", worst, best)
	case s.scale != products && !(worst >= -optimal && worst <= 0):
		return fmt.Errorf("the worst true triple has the distance %g", -worst)
	case s.scale != products && !(best <= -apart):
		return fmt.Errorf("the best false triple has the distance %g", -best)
	}
	return w.followsAll(p)
}

// region bounds the distance at which a triple leaves the region of its relation. A triple is in the region if its
// distance is at most inside, and is not in the region if its distance exceeds outside.
type region struct{ inside, outside float64 }

// check returns an error unless the true triples are in the regions of their relations and the false
// triples are not.
func (f scores) check(regions []region, p *Pattern) error {
	for _, t := range p.truths {
		if d := -f.of(t); !(d <= regions[t.relation].inside) {
			return fmt.Errorf("a true triple has the distance %g, which may be outside its region", d)
		}
	}
	for _, t := range p.falsehoods {
		if d := -f.of(t); !(d > regions[t.relation].outside) {
			return fmt.Errorf("a false triple has the distance %g, which may be in its region", d)
		}
	}
	return nil
}

// followsAll checks the rules of a pattern.
func (w *world) followsAll(p *Pattern) error {
	for _, r := range p.rules {
		if err := w.follows(r); err != nil {
			return err
		}
	}
	return nil
}

// follows checks a rule for all entities. For distances, the distance of the conclusion is at most
// stretch times the sum of the distances of the premises, so it is 0 if all premises have the
// distance 0. For products, the conclusion has the score of the only premise.
func (w *world) follows(r rule) error {
	if w.scale != products {
		ratio, err := w.attack(onlyEntities, stretch*(1+rounding), func(f scores) float64 {
			return quotient(f.of(r.conclusion), f.sum(r.premises))
		})
		if err == nil && ratio > stretch*(1+rounding) {
			err = fmt.Errorf("a rule fails: a conclusion has %g times the distance of its premises", ratio)
		}
		return err
	}
	if len(r.premises) != 1 {
		return errors.New("a rule of products has one premise")
	}
	for range 50 {
		w.randomise(onlyEntities)
		f, err := w.build()
		if err != nil {
			return err
		}
		premise, conclusion := f.of(r.premises[0]), f.of(r.conclusion)
		if math.Abs(premise-conclusion) > rounding*(1+math.Abs(premise)) {
			return fmt.Errorf("a rule fails: a premise scores %g and its conclusion %g", premise, conclusion)
		}
	}
	return nil
}

// quotient returns the ratio of two distances, given their negatives, or 0 if both are too small for
// an accurate ratio.
func quotient(a, b float64) float64 {
	const least = 1e-4
	if -b < least && -a < least {
		return 0
	}
	return a / b
}

// shape is a dimension with hyper-parameters.
type shape struct {
	dim   int
	hyper map[string]float64
}

// bound is a no: for all parameters, the distance of a false triple is at most the sum of the
// distances of the true triples. If factor is not nil, the bound is factor times this sum. The
// false triple is therefore optimal if all true triples are.
type bound struct {
	falsehood int // the index of the false triple
	shapes    []shape
	factor    func(w *world) float64
}

func (bound) verdict() Verdict { return No }

func (b bound) check(s subject, p *Pattern) error {
	for _, shape := range b.shapes {
		w, err := s.newWorld(&p.graph, shape.dim, shape.hyper)
		if err != nil {
			return err
		}
		ratio, err := w.attack(every, 1+rounding, func(f scores) float64 {
			q := quotient(f.of(p.falsehoods[b.falsehood]), f.sum(p.truths))
			if b.factor != nil {
				q /= b.factor(w)
			}
			return q
		})
		if err != nil {
			return err
		}
		if ratio > 1+rounding {
			return fmt.Errorf("the distance of a false triple is %g times its bound", ratio)
		}
	}
	return nil
}

// swap is a no: for all parameters, the false triple (y, r, x) has the score of the true triple (x,
// r, y).
type swap struct{ shapes []shape }

func (swap) verdict() Verdict { return No }

func (a swap) check(s subject, p *Pattern) error {
	x := p.truths[0]
	y := triple{x.tail, x.relation, x.head}
	for _, shape := range a.shapes {
		w, err := s.newWorld(&p.graph, shape.dim, shape.hyper)
		if err != nil {
			return err
		}
		for range 100 {
			w.randomise(every)
			f, err := w.build()
			if err != nil {
				return err
			}
			if p, q := f.of(x), f.of(y); math.Abs(p-q) > rounding*(1+math.Abs(p)) {
				return fmt.Errorf("exchanging head and tail changes a score from %g to %g", p, q)
			}
		}
	}
	return nil
}

// exception is a no: for any parameters of the relations, a rule of the pattern fails for some
// entities and some threshold. The search finds entities for random relations, such that the
// conclusion scores less than every premise.
type exception struct{ shapes []shape }

func (exception) verdict() Verdict { return No }

func (e exception) check(s subject, p *Pattern) error {
	const relations = 5
	r := p.rules[0]
	for _, shape := range e.shapes {
		w, err := s.newWorld(&p.graph, shape.dim, shape.hyper)
		if err != nil {
			return err
		}
		for range relations {
			w.randomise(every)
			found, err := w.climb(onlyEntities, 100, 120, apart, func(f scores) float64 {
				return f.least(r.premises) - f.of(r.conclusion)
			})
			if err != nil {
				return err
			}
			if found <= apart {
				return errors.New("the search found no entities that break the rule")
			}
		}
	}
	return nil
}

// detour is a no for non-Abelian compositions of translations. For all entities a, d and e there is
// an entity v with D(a, r1, v) = D(d, r1, e) and D(v, r2, e) = D(a, r2, d). If (a, r2, d) and (d, r1,
// e) are true, the rule r1, r2 → r3 with v gives the false triple (a, r3, e).
type detour struct {
	shapes []shape
	// midpoint sets the row of v, given the rows of a, d and e.
	midpoint func(v, a, d, e []float32)
}

func (detour) verdict() Verdict { return No }

func (t detour) check(s subject, p *Pattern) error {
	// In the triples of the pattern, v takes the place of b.
	const a, v, d, e, r1, r2 = 0, 1, 3, 4, 0, 1
	for _, shape := range t.shapes {
		w, err := s.newWorld(&p.graph, shape.dim, shape.hyper)
		if err != nil {
			return err
		}
		for range 100 {
			w.randomise(every)
			n := w.parameters[0].Width()
			row := func(i int) []float32 { return w.tensors[0][i*n:][:n] }
			t.midpoint(row(v), row(a), row(d), row(e))
			f, err := w.build()
			if err != nil {
				return err
			}
			for _, pair := range [][2]triple{{{a, r1, v}, {d, r1, e}}, {{v, r2, e}, {a, r2, d}}} {
				x, y := f.of(pair[0]), f.of(pair[1])
				if math.Abs(x-y) > rounding*(1+math.Abs(x)) {
					return fmt.Errorf("two distances that must be equal are %g and %g", -x, -y)
				}
			}
		}
	}
	return nil
}
