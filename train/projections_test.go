package train

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/internal/traintest"
	"github.com/mquine/mquine/train/recipe"
)

// The gradients of models that map entities into the spaces of relations equal central differences.
// Some cases bound the norms of the projected entities, and in some cases the spaces of relations
// have a different dimension.
func TestProjectionGradients(t *testing.T) {
	for _, test := range []struct {
		model string
		hyper recipe.Hyper
	}{
		{"transh-l1", "unit_projections=1"},
		{"transh-l2", "max_projection_norm=0.3"},
		{"transr-l1", "max_projection_norm=0.3,relation_dim=2"},
		{"transr-l2", "max_projection_norm=0.5,relation_dim=5,unit_projections=1"},
		{"transd-l1", "relation_dim=5,unit_projections=1"},
		{"transd-l2", "max_projection_norm=0.2,relation_dim=2"},
		{"house", "group=3,projections=2,reflections=2,translation=1"},
	} {
		t.Run(test.model, func(t *testing.T) {
			for _, negatives := range []recipe.Negatives{
				recipe.KvsAll, recipe.SharedNegatives, recipe.IndependentNegatives,
			} {
				c := recipe.Default()
				c.Model, c.Hyper, c.Dim, c.Batch, c.Dropout = test.model, test.hyper, 3, 14, 0
				c.Negatives, c.NegativeCount, c.Filter = negatives, 4, true
				t.Run(string(negatives), func(t *testing.T) { checkAllGradients(t, c) })
			}
		})
	}
}

// Queries with the same features share rows, and these rows are in segments of the queries' side and
// relation.
func TestRowSegments(t *testing.T) {
	g := traintest.RandomGraph(12, 3, 60, 3)
	for _, negatives := range []recipe.Negatives{
		recipe.OneVsAll, recipe.KvsAll, recipe.SharedNegatives, recipe.IndependentNegatives,
	} {
		c := recipe.Default()
		c.Model, c.Dim, c.Batch, c.Negatives, c.NegativeCount = "transh-l1", 3, 20, negatives, 4
		c.ZSamples, c.Filter = 3, true
		tr := trainerFor(t, c, g, machineOf(t, 1).Backend, 1)
		w, err := tr.prepare(t.Context(), firstItems(c.Batch), 0)
		require.NoError(t, err)
		owner := make([]*rowSegment, len(w.rows))
		last := 0
		for i := range w.rowSegments {
			r := &w.rowSegments[i]
			require.Equal(t, last, r.first, "the segments cover the rows")
			require.Less(t, r.first, r.last)
			last = r.last
			for row := r.first; row < r.last; row++ {
				owner[row] = r
			}
		}
		require.Equal(t, len(w.rows), last)
		belongs := func(q kg.Query, row int) {
			require.Equal(t, q.Side, owner[row].side, negatives)
			require.Equal(t, q.Relation, owner[row].relation, negatives)
		}
		for i, q := range w.queries {
			if i < w.main && len(w.matrices) > 0 {
				p := w.matrixOf(i)
				for row := p.row; row < p.lastRow; row++ {
					belongs(q, row)
				}
			}
			for _, row := range w.pairRows[w.pairs[i]:w.pairs[i+1]] {
				belongs(q, int(row))
			}
		}
	}
}

// A constraint holds after every epoch, for the trained model and for its moving average.
func TestConstraints(t *testing.T) {
	const most = 0.2
	g := traintest.RandomGraph(30, 4, 120, 5)
	for _, name := range []string{"transh-l1", "transr-l2", "transd-l1"} {
		for _, optimiser := range []recipe.Optimiser{recipe.Adam, recipe.Adagrad, recipe.SGD} {
			c := recipe.Default()
			c.Model, c.Dim, c.Batch, c.Hyper, c.Optimiser, c.LearningRate = name, 6, 16, "max_norm=0.2", optimiser, 0.1
			c.Negatives, c.NegativeCount, c.EMA, c.Reciprocal = recipe.SharedNegatives, 4, 0.5, name == "transh-l1"
			tr, err := NewTrainer(t.Context(), c, g, machineOf(t, 1))
			require.NoError(t, err)
			for range 3 {
				checkConstraints(t, tr.model, most)
				_, err := tr.Epoch(t.Context())
				require.NoError(t, err)
				checkConstraints(t, tr.average, most)
			}
			checkConstraints(t, tr.model, most)
		}
	}
}

// checkConstraints checks that normals have unit length, and that entities and, except in TransH,
// translations are at most as long as the argument most.
func checkConstraints(t *testing.T, m model.Model, most float64) {
	t.Helper()
	c := m.Config()
	longest := 0.0
	norm := func(x []float32) float64 {
		var sum float64
		for _, v := range x {
			sum += float64(v) * float64(v)
		}
		return math.Sqrt(sum)
	}
	for i, p := range parametersOf(m) {
		for row := 0; row < len(m.Tensors()[i]); row += c.Dim {
			n := norm(m.Tensors()[i][row:][:c.Dim])
			switch {
			case p.Name == "relation.normal":
				assert.InDelta(t, 1, n, 1e-6)
			case p.Name == "entity" && (c.Model != "transd-l1" || row/c.Dim%2 == 0),
				p.Name == "relation" && c.Model != "transh-l1":
				require.LessOrEqual(t, n, most*(1+1e-6), "%s %s", c.Model, p.Name)
				longest = max(longest, n)
			}
		}
	}
	assert.Greater(t, longest, 0.9*most, "the constraint has an effect")
}
