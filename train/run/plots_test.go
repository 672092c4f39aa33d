package run

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mquine/mquine/internal/plot"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"
)

// A loss that falls steeply has a logarithmic axis, which parts that are almost zero do not
// stretch.
func TestLossChart(t *testing.T) {
	h := History{Recipe: recipe.Default()}
	h.Recipe.ZSamples, h.Recipe.Regulariser = 0, model.NoPenalty
	for i, total := range []float64{23, 4, 3.7, 3.6} {
		loss := train.Loss{Total: total, Fit: total - 0.1, Regulariser: []float64{0, 1e-9, 0.1, 0.1}[i]}
		h.Epochs = append(h.Epochs, train.Epoch{Epoch: i + 1, Loss: loss, Best: i == 1 || i == 2})
	}
	c := h.LossChart()
	assert.True(t, c.Y.Log)
	assert.Equal(t, []plot.Rule{{At: 3, Label: "best"}}, c.X.Rules)
	assert.Len(t, c.Series, 1, "the total has no parts")
	assert.Equal(t, []plot.Point{{X: 1, Y: 23}, {X: 2, Y: 4}, {X: 3, Y: 3.7}, {X: 4, Y: 3.6}}, c.Series[0].Points)

	h.Recipe.Regulariser = model.N3
	c = h.LossChart()
	assert.Equal(t, []string{"total", "fit", "regulariser"}, []string{c.Series[0].Name, c.Series[1].Name, c.Series[2].Name})
	assert.True(t, math.IsNaN(c.Series[2].Points[1].Y), "1e-9 would stretch the axis by nine decades")
	assert.Equal(t, 0.1, c.Series[2].Points[2].Y)
	assert.NotEmpty(t, c.Note)

	h.Epochs = h.Epochs[1:]
	c = h.LossChart()
	assert.False(t, c.Y.Log)
	assert.Equal(t, []float64{0}, c.Y.Include)
	assert.Empty(t, c.Note)
}

func TestValidationChart(t *testing.T) {
	h := History{Recipe: recipe.Default(), Epochs: []train.Epoch{{Epoch: 1}}}
	_, ok := h.ValidationChart()
	assert.False(t, ok)
	h.Epochs = append(h.Epochs, train.Epoch{Epoch: 2, Valid: train.Scores{
		{Side: rank.TailSide, Filter: rank.All, MRR: 0.5}, {Side: rank.TailSide, Filter: rank.Train, MRR: 0.4},
	}})
	c, ok := h.ValidationChart()
	assert.True(t, ok)
	assert.Equal(t, []plot.Series{{Name: "tail", Points: []plot.Point{{X: 2, Y: 0.5}}}}, c.Series)
}
