package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/internal/traintest"
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
		r.log = append(r.log, Epoch{EpochResult: train.EpochResult{Epoch: i + 1, Loss: loss}, Best: i == 2})
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

// If drawing takes long, the run draws the plots once in the end: after its last epoch, when it stops early,
// and when it is interrupted. They are the same as if they were drawn after every epoch.
func TestPlotsAreDrawnInTheEnd(t *testing.T) {
	data := traintest.FamiliesFolder(t)
	read := func(dir, name string) string {
		file, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(file)
	}
	requirePlots := func(dir string) {
		t.Helper()
		h, err := ReadHistory(t.Context(), dir)
		require.NoError(t, err)
		r := &Run{Dir: t.TempDir(), Recipe: h.Recipe, Graph: &kg.Graph{Name: filepath.Base(data)}, log: h.Epochs}
		require.NoError(t, r.plot())
		for _, name := range []string{lossPlotName, metricPlotName} {
			require.Equal(t, read(r.Dir, name), read(dir, name))
		}
	}
	// trainTo opens a run, claims that its last drawing took long, and trains.
	trainTo := func(ctx context.Context, dir string, last int, report func(Epoch)) error {
		r, err := Open(t.Context(), dir, Options{Machine: machineOf(t, 1)})
		require.NoError(t, err)
		r.plots.drawn, r.plots.took = time.Now(), time.Hour
		return errors.Join(r.TrainTo(ctx, last, report), r.Close())
	}
	newRun := func(c recipe.Recipe) string {
		dir := filepath.Join(t.TempDir(), "run")
		c.ValidEvery = 1
		require.NoError(t, create(t, dir, data, c))
		return dir
	}

	dir, former := newRun(traintest.Small(6)), ""
	unchanged := func(epoch, last int) {
		if now, _ := os.ReadFile(filepath.Join(dir, lossPlotName)); epoch < last {
			require.Equal(t, former, string(now), "after epoch %d", epoch)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := trainTo(ctx, dir, 6, func(e Epoch) {
		if unchanged(e.Epoch, 6); e.Epoch == 2 {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	requirePlots(dir)
	for _, last := range []int{4, 6} {
		former = read(dir, lossPlotName)
		require.NoError(t, trainTo(t.Context(), dir, last, func(e Epoch) { unchanged(e.Epoch, last) }))
		requirePlots(dir)
	}

	c := traintest.Small(50)
	c.Patience, c.LearningRate = 1, 0
	dir = newRun(c)
	require.NoError(t, trainTo(t.Context(), dir, 50, nil))
	requirePlots(dir)
}
