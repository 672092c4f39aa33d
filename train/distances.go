package train

import (
	"context"
	"math"

	"github.com/mquine/mquine/kernel/linalg"
)

// distances compare by the negative of a distance of ψ and φ.
type distances struct {
	kind   linalg.DistanceKind
	blocks *linalg.Distance
	kept   linalg.Matrix // the scores of the block, for DistanceL2 alone
}

func newDistances(kind linalg.DistanceKind, b *linalg.Backend, threads int) *distances {
	return &distances{kind: kind, blocks: b.NewDistance(kind, threads)}
}

func (d *distances) scores(ctx context.Context, scores, psi, phi linalg.Matrix) error {
	if err := d.blocks.Scores(ctx, scores, psi, phi); err != nil {
		return err
	}
	if d.kind == linalg.DistanceL2 {
		size(&d.kept, scores.Rows, scores.Cols)
		for i := range scores.Rows {
			copy(d.kept.Row(i), scores.Row(i))
		}
	}
	return nil
}

func (d *distances) gradients(ctx context.Context, dPsi, dPhi, dScores, psi, phi linalg.Matrix) error {
	return d.blocks.Gradients(ctx, dPsi, dPhi, dScores, d.kept, psi, phi)
}

func (d *distances) pairScores(scores, psi []float32, phi linalg.Matrix, rows []int32) {
	for k, row := range rows {
		scores[k] = float32(-distance(d.kind, psi, phi.Row(int(row))))
	}
}

func (d *distances) addQueryGradient(dPsi, dScores, psi []float32, phi linalg.Matrix, rows []int32) {
	for k, row := range rows {
		addDistanceGradient(d.kind, dPsi, psi, phi.Row(int(row)), -float64(dScores[k]))
	}
}

func (d *distances) addFeatureGradient(
	dPhi, phi []float32, psi linalg.Matrix, pairs, queries []int32, dScores []float32,
) {
	for _, k := range pairs {
		addDistanceGradient(d.kind, dPhi, phi, psi.Row(int(queries[k])), -float64(dScores[k]))
	}
}

// distance returns the distance of x and y.
func distance(kind linalg.DistanceKind, x, y []float32) (sum float64) {
	y = y[:len(x)]
	switch kind {
	case linalg.DistanceL1:
		for i, v := range x {
			sum += math.Abs(float64(v - y[i]))
		}
	case linalg.DistanceL2:
		for i, v := range x {
			u := float64(v - y[i])
			sum += float64(u * u)
		}
		return math.Sqrt(sum)
	case linalg.DistanceGroupNorm:
		for i := 0; i < len(x); i += 2 {
			u, v := float64(x[i]-y[i]), float64(x[i+1]-y[i+1])
			sum += math.Sqrt(float64(u*u) + float64(v*v))
		}
	case linalg.DistancePhase:
		for i := 0; i < len(x); i += 2 {
			sum += math.Abs(phaseProduct(x, y, i))
		}
	}
	return sum
}

// phaseProduct is a term of DistancePhase, without its sign.
func phaseProduct(x, y []float32, i int) float64 {
	return float64(float64(x[i])*float64(y[i])) + float64(float64(x[i+1])*float64(y[i+1]))
}

// addDistanceGradient adds weight times the gradient of the distance of x and y by x to dX. Where the distance has none
// it takes 0. All distances are the same with x and y exchanged.
func addDistanceGradient(kind linalg.DistanceKind, dX, x, y []float32, weight float64) {
	dX, y = dX[:len(x)], y[:len(x)]
	switch kind {
	case linalg.DistanceL1:
		for i, v := range x {
			switch {
			case v > y[i]:
				dX[i] += float32(weight)
			case v < y[i]:
				dX[i] -= float32(weight)
			}
		}
	case linalg.DistanceL2:
		length := distance(kind, x, y)
		if length == 0 {
			return
		}
		for i, v := range x {
			dX[i] += float32(weight * float64(v-y[i]) / length)
		}
	case linalg.DistanceGroupNorm:
		for i := 0; i < len(x); i += 2 {
			u, v := float64(x[i]-y[i]), float64(x[i+1]-y[i+1])
			if length := math.Sqrt(float64(u*u) + float64(v*v)); length != 0 {
				dX[i] += float32(weight * u / length)
				dX[i+1] += float32(weight * v / length)
			}
		}
	case linalg.DistancePhase:
		for i := 0; i < len(x); i += 2 {
			w := weight
			switch s := phaseProduct(x, y, i); {
			case s == 0:
				continue
			case s < 0:
				w = -w
			}
			dX[i] += float32(w * float64(y[i]))
			dX[i+1] += float32(w * float64(y[i+1]))
		}
	}
}
