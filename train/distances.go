package train

import (
	"context"
	"sync"

	"github.com/mquine/mquine/kernel/linalg"
)

// distances is the comparer for scores that are negated distances between ψ and φ.
type distances struct {
	kind     linalg.DistanceKind
	backend  *linalg.Backend
	distance *linalg.Distance
	kept     linalg.Matrix // a copy of the scores, if the distance is a root
}

// newDistances returns the comparer for the given distance and number of threads.
func newDistances(kind linalg.DistanceKind, b *linalg.Backend, threads int) *distances {
	return &distances{kind: kind, backend: b, distance: b.NewDistance(kind, threads)}
}

func (d *distances) scores(ctx context.Context, scores, psi, phi linalg.Matrix) error {
	if err := d.distance.Scores(ctx, scores, psi, phi); err != nil {
		return err
	}
	if d.kind.Root() {
		d.kept.Resize(scores.Rows, scores.Cols)
		for i := range scores.Rows {
			copy(d.kept.Row(i), scores.Row(i))
		}
	}
	return nil
}

func (d *distances) gradients(ctx context.Context, dPsi, dPhi, dScores, psi, phi linalg.Matrix) error {
	return d.distance.Gradients(ctx, dPsi, dPhi, dScores, d.kept, psi, phi)
}

func (d *distances) pairScores(scores, psi []float32, phi linalg.Matrix, rows []int32) {
	d.backend.DistanceScores(d.kind, scores, psi, phi, rows)
}

func (d *distances) addPsiGradient(dPsi, dScores, psi []float32, phi linalg.Matrix, rows []int32) {
	d.backend.AddDistanceGradient(d.kind, dPsi, dScores, psi, phi, rows)
}

// addPhiGradient calls addPsiGradient, because distances are symmetric.
func (d *distances) addPhiGradient(dPhi, dScores, phi []float32, psi linalg.Matrix, rows []int32) {
	d.addPsiGradient(dPhi, dScores, phi, psi, rows)
}

// twoDistances is the comparer for scores that are the negated sum of two distances: one between the
// first entries of ψ and φ, and one between the other entries.
type twoDistances struct {
	first, second *distances
	from          int
	more          linalg.Matrix // scores of the second distance
	pairs         sync.Pool     // *[]float32, scores of pairs
}

func newTwoDistances(first, second *distances, from int) *twoDistances {
	d := &twoDistances{first: first, second: second, from: from}
	d.pairs.New = func() any { return new([]float32) }
	return d
}

// split returns the columns of m that belong to the two distances.
func (d *twoDistances) split(m linalg.Matrix) (first, second linalg.Matrix) {
	if m.Rows == 0 {
		return linalg.Matrix{Cols: d.from, Stride: m.Stride}, linalg.Matrix{Cols: m.Cols - d.from, Stride: m.Stride}
	}
	return m.Columns(0, d.from), m.Columns(d.from, m.Cols)
}

func (d *twoDistances) scores(ctx context.Context, scores, psi, phi linalg.Matrix) error {
	psi1, psi2 := d.split(psi)
	phi1, phi2 := d.split(phi)
	d.more.Resize(scores.Rows, scores.Cols)
	if err := d.first.scores(ctx, scores, psi1, phi1); err != nil {
		return err
	}
	if err := d.second.scores(ctx, d.more, psi2, phi2); err != nil {
		return err
	}
	for i := range scores.Rows {
		d.first.backend.Axpy(scores.Row(i), 1, d.more.Row(i))
	}
	return nil
}

func (d *twoDistances) gradients(ctx context.Context, dPsi, dPhi, dScores, psi, phi linalg.Matrix) error {
	dPsi1, dPsi2 := d.split(dPsi)
	dPhi1, dPhi2 := d.split(dPhi)
	psi1, psi2 := d.split(psi)
	phi1, phi2 := d.split(phi)
	if err := d.first.gradients(ctx, dPsi1, dPhi1, dScores, psi1, phi1); err != nil {
		return err
	}
	return d.second.gradients(ctx, dPsi2, dPhi2, dScores, psi2, phi2)
}

func (d *twoDistances) pairScores(scores, psi []float32, phi linalg.Matrix, rows []int32) {
	phi1, phi2 := d.split(phi)
	d.first.pairScores(scores, psi[:d.from], phi1, rows)
	pairs := d.pairs.Get().(*[]float32)
	defer d.pairs.Put(pairs)
	*pairs = resize(*pairs, len(scores))
	d.second.pairScores(*pairs, psi[d.from:], phi2, rows)
	d.first.backend.Axpy(scores, 1, *pairs)
}

func (d *twoDistances) addPsiGradient(dPsi, dScores, psi []float32, phi linalg.Matrix, rows []int32) {
	phi1, phi2 := d.split(phi)
	d.first.addPsiGradient(dPsi[:d.from], dScores, psi[:d.from], phi1, rows)
	d.second.addPsiGradient(dPsi[d.from:], dScores, psi[d.from:], phi2, rows)
}

// addPhiGradient calls addPsiGradient, because both distances are symmetric.
func (d *twoDistances) addPhiGradient(dPhi, dScores, phi []float32, psi linalg.Matrix, rows []int32) {
	d.addPsiGradient(dPhi, dScores, phi, psi, rows)
}
