package train

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/train/internal/traintest"
	"github.com/mquine/mquine/train/recipe"
)

// cancelledAfter is a context that is cancelled once it was asked for its error a number of times.
type cancelledAfter struct {
	context.Context
	calls int
}

func (c *cancelledAfter) Err() error {
	if c.calls--; c.calls < 0 {
		return context.Canceled
	}
	return nil
}

// Relation prediction can be cancelled between the relations of a chunk.
func TestCancelRelationPrediction(t *testing.T) {
	c := recipe.Default()
	c.Model, c.Dim, c.Batch, c.RelationWeight = "rotate", 3, 20, 1
	tr := trainerFor(t, c, traintest.RandomGraph(15, 12, 120, 8), machineOf(t, 1).Backend, 1)
	w, err := tr.prepare(t.Context(), firstItems(20), 0)
	require.NoError(t, err)
	tr.stepper.begin(w)
	require.NoError(t, tr.stepper.features(t.Context(), w))
	require.NotNil(t, tr.stepper.relationQueries)
	require.Len(t, tr.stepper.relationQueries.chunks, 1)
	err = tr.stepper.predictRelationsByQueries(&cancelledAfter{t.Context(), 10}, w)
	require.ErrorIs(t, err, context.Canceled)
}
