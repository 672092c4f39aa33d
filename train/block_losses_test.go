package train

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/internal/traintest"
	"github.com/mquine/mquine/train/recipe"
)

// With block_losses, the loss of a step is the sum of the losses of its blocks as separate models, and
// each block has the gradients of the separate model. TestGradients checks the gradients of these.
func TestBlockLosses(t *testing.T) {
	backends, err := kernel.Available()
	require.NoError(t, err)
	g := traintest.RandomGraph(8, 3, 40, 3)
	const blocks = 3
	for name, change := range map[string]func(*recipe.Recipe){
		"1vsall": func(*recipe.Recipe) {},
		"1vsall, filtered, smoothed, mquade": func(c *recipe.Recipe) {
			c.Model, c.Filter, c.Smoothing = "mquade", true, 0.2
		},
		"kvsall in parts, dura": func(c *recipe.Recipe) {
			c.Negatives, c.MaxAnswers, c.AnswerWeights = recipe.KvsAll, 2, true
			c.Regulariser, c.LambdaReg = model.Dura, 0.3
		},
		"kvsall in parts, dura3": func(c *recipe.Recipe) { // its norms belong to blocks
			c.Negatives, c.MaxAnswers = recipe.KvsAll, 2
			c.Regulariser, c.LambdaReg = model.Dura3, 0.3
		},
		"1vsall, reciprocal, dura3, mquade": func(c *recipe.Recipe) {
			c.Model, c.Reciprocal, c.Regulariser, c.LambdaReg = "mquade", true, model.Dura3, 0.3
		},
		"kvsall, reciprocal, n3, large": func(c *recipe.Recipe) {
			c.Dim, c.Negatives, c.Reciprocal, c.Regulariser, c.LambdaReg = 9, recipe.KvsAll, true, model.N3, 0.1
		},
		"shared with anchors, filtered, dura": func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount, c.AnchorNegatives, c.Filter = recipe.SharedNegatives, 3, true, true
			c.Regulariser, c.LambdaReg = model.Dura, 0.3
		},
		"shared, degree, reciprocal, smoothed, large": func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount, c.Distribution = recipe.SharedNegatives, 4, recipe.Degree
			c.Dim, c.Reciprocal, c.Smoothing = 9, true, 0.1
		},
		"independent, filtered": func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount, c.Filter = recipe.IndependentNegatives, 9, true
		},
		"kvsall, bf16": func(c *recipe.Recipe) { c.Negatives, c.Products = recipe.KvsAll, recipe.BF16 },
	} {
		t.Run(name, func(t *testing.T) {
			c := recipe.Default()
			c.Dim, c.Batch, c.Dropout = 3, 14, 0
			change(&c)
			whole := c
			whole.BlockLosses, whole.Hyper = true, "blocks=3"
			for _, b := range backends {
				if c.CheckBackend(b) != nil {
					continue
				}
				tr := trainerFor(t, whole, g, b, 2)
				tr.stepper.sliceRows, tr.stepper.fewestSlices = 4, 2
				w, err := tr.prepare(t.Context(), firstItems(c.Batch), 0)
				require.NoError(t, err)
				loss := runStep(t, tr, w)
				require.Equal(t, c.Negatives == recipe.IndependentNegatives, tr.stepper.sliced)
				var sum Loss
				for i := range blocks {
					single := trainerFor(t, c, g, b, 1)
					for k, tensor := range single.model.Tensors() {
						copyBlock(tensor, tr.model.Tensors()[k], single.stepper.tables[k], c.Reciprocal, i, blocks)
					}
					w, err := single.prepare(t.Context(), firstItems(c.Batch), 0)
					require.NoError(t, err)
					sum.add(runStep(t, single, w), 1)
					require.Equal(t, single.stepper.used, tr.stepper.used)
					requireBlockGradients(t, single, tr, c.Reciprocal, i, blocks)
				}
				require.InEpsilon(t, sum.Total, loss.Total, 1e-6)
				require.InEpsilon(t, sum.Fit, loss.Fit, 1e-6)
			}
		})
	}
}

// A run with block_losses cannot start from a model without blocks.
func TestBlockLossesNeedBlocks(t *testing.T) {
	g := traintest.RandomGraph(8, 3, 40, 3)
	c := recipe.Default()
	c.Dim, c.Hyper, c.BlockLosses = 3, "blocks=2", true
	start, err := model.Random(t.Context(), model.Config{Model: c.Model, Dim: c.Dim, Entities: 8, Relations: 3}, 1)
	require.NoError(t, err)
	m := Machine{Backend: kerneltest.Best(t), Threads: 1}
	_, err = NewTrainerFrom(t.Context(), c, g, m, start.(model.Trainable))
	require.EqualError(t, err, "train: a model without blocks cannot start a run with block_losses: true")
}

// copyBlock copies a block of the rows in from to the rows in to, which belong to a table of a model with
// one block. A row of a relation with its inverse has the blocks of the relation and then the blocks of
// the inverse.
func copyBlock(to, from []float32, table parameterTable, reciprocal bool, block, blocks int) {
	n := table.width
	if reciprocal && table.axis == model.PerRelation {
		n /= 2
	}
	for i := range len(to) / n {
		copy(to[i*n:(i+1)*n], from[(i*blocks+block)*n:])
	}
}

// requireBlockGradients checks that a block of tr has the gradients of single after a step.
func requireBlockGradients(t *testing.T, single, tr *Trainer, reciprocal bool, block, blocks int) {
	t.Helper()
	check := func(want, row []float32, table parameterTable) {
		got := make([]float32, table.width)
		copyBlock(got, row, table, reciprocal, block, blocks)
		require.InDeltaSlice(t, want, got, 1e-6)
	}
	tables := single.stepper.tables
	for k := range single.stepper.used.entities {
		check(single.kept.entities.Row(k), tr.kept.entities.Row(k), tables[0])
	}
	for k := range single.stepper.used.relations {
		want, row := single.kept.relations.Row(k), tr.kept.relations.Row(k)
		for i, table := range tables {
			if table.axis == model.PerRelation {
				check(want[:table.width], row[:tr.stepper.tables[i].width], table)
				want, row = want[table.width:], row[tr.stepper.tables[i].width:]
			}
		}
	}
}
