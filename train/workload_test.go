package train

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Every query has the score matrix that contains it, and a query that no matrix contains is a programming error.
func TestMatrixOf(t *testing.T) {
	w := workload{matrices: []scoreMatrix{{0, 1, 0, 5}, {1, 4, 5, 9}, {4, 6, 5, 9}, {6, 7, 9, 12}}}
	for i, want := range []int{0, 1, 1, 1, 2, 2, 3} {
		assert.Equal(t, w.matrices[want], w.matrixOf(i), "query %d", i)
	}
	assert.PanicsWithValue(t, "train: query 7 is in no score matrix", func() { w.matrixOf(7) })
	assert.PanicsWithValue(t, "train: query -1 is in no score matrix", func() { w.matrixOf(-1) })
	assert.Panics(t, func() { new(workload).matrixOf(0) })
}
