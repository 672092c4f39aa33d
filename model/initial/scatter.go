package initial

import "math"

const (
	// nearbyDistance is the distance by which Nearby moves from the centre, as a multiple of the
	// centre's norm.
	nearbyDistance = 0.3
	// phaseDeviation is the standard deviation of NearbyPhases as a fraction of the circle.
	phaseDeviation = 0.05
)

// A Scatter writes a random point near centre to row, which is the row of an entity. Clustered
// checkpoints use it to place the entities of a cluster.
type Scatter func(s *Source, row, centre []float32)

// Nearby is the Scatter whose points lie at 30% of the centre's norm from the centre, in a
// direction drawn uniformly from the sphere.
func Nearby(s *Source, row, centre []float32) {
	nearby(s, row, centre, func(int) float64 { return 1 })
}

// NearbySymmetric is Nearby for symmetric matrices A + Aᵀ with the Frobenius norm. A row holds the
// packed lower triangle of A, row by row.
func NearbySymmetric(s *Source, row, centre []float32) {
	nearby(s, row, centre, func(i int) float64 {
		// The n-th diagonal entry, from 0, has the index n(n+3)/2.
		if n := math.Sqrt(float64(8*i + 9)); n == math.Trunc(n) {
			return 4 // (2A_ii)²
		}
		return 2 // A_ij and A_ji
	})
}

// NearbyPhases returns the Scatter that adds independent normal deviates, with a standard deviation
// of 5% of the circle, to phases. half is the stored value that represents the phase π.
func NearbyPhases(half float64) Scatter {
	return func(s *Source, row, centre []float32) {
		for i, x := range centre {
			row[i] = float32(float64(x) + float64(2*phaseDeviation*half*s.Normal()))
		}
	}
}

// nearby implements Nearby with the norm √(Σ weight(i)·x_i²).
func nearby(s *Source, row, centre []float32, weight func(i int) float64) {
	var norm, length float64
	for i, x := range centre {
		w := weight(i)
		row[i] = float32(s.Normal() / math.Sqrt(w)) // the direction
		norm += float64(w * float64(float64(x)*float64(x)))
		length += float64(w * float64(float64(row[i])*float64(row[i])))
	}
	scale := nearbyDistance * math.Sqrt(norm/length)
	for i, x := range centre {
		row[i] = float32(float64(x) + float64(scale*float64(row[i])))
	}
}
