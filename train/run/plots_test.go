package run

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"
)

// The axis of a loss that falls steeply is logarithmic. Parts that are almost zero do not stretch
// it.
func TestPlots(t *testing.T) {
	r := &Run{Dir: t.TempDir(), Recipe: recipe.Default(), Graph: &kg.Graph{Name: `<"toy">`}}
	r.Recipe.ZSamples, r.Recipe.Regulariser = 0, model.NoPenalty
	draw := func() (loss, validation string) {
		t.Helper()
		require.NoError(t, r.plot())
		file, err := os.ReadFile(filepath.Join(r.Dir, lossPlotName))
		require.NoError(t, err)
		if other, err := os.ReadFile(filepath.Join(r.Dir, metricPlotName)); err == nil {
			validation = string(other)
		}
		return string(file), validation
	}
	for i, total := range []float64{23, 4, 3.7, 3.6} {
		loss := train.Loss{Total: total, Fit: total - 0.1, Regulariser: []float64{0, 1e-9, 0.1, 0.1}[i]}
		r.log = append(r.log, train.Epoch{Epoch: i + 1, Loss: loss, Best: i == 2})
	}
	r.progress.bestEpoch = 3
	loss, validation := draw()
	for _, want := range []string{
		"&lt;&#34;toy&#34;&gt;: loss", ">loss (logarithmic)<", ">best<", "total, epoch 1, 23<",
	} {
		assert.Contains(t, loss, want)
	}
	assert.NotContains(t, loss, ">fit<", "a loss without other parts shows only its total")
	assert.Empty(t, validation, "no epoch was validated")

	r.Recipe.Regulariser = model.N3
	loss, _ = draw()
	for _, want := range []string{">total<", ">fit<", ">regulariser<", "regulariser, epoch 3, 0.1<", "are not shown."} {
		assert.Contains(t, loss, want)
	}
	assert.NotContains(t, loss, "regulariser, epoch 2", "1e-9 would stretch the axis by nine decades")

	r.log = r.log[1:]
	r.log[2].Valid = train.Scores{
		{Side: rank.TailSide, Filter: rank.All, MRR: 0.5}, {Side: rank.TailSide, Filter: rank.Train, MRR: 0.4},
	}
	loss, validation = draw()
	assert.NotContains(t, loss, "logarithmic")
	assert.Contains(t, loss, "regulariser, epoch 2, 1e−09<")
	assert.Contains(t, validation, "tail, epoch 4, 0.5<")
	assert.NotContains(t, validation, "epoch 4, 0.4<")
}
