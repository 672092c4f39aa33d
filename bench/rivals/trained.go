package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"
	"github.com/mquine/mquine/train/run"
)

// trainedTriples is the least number of triples that a training run visits, unless it reaches
// trainedEpochs first. Large data sets therefore need about the same time.
const (
	trainedTriples = 1_600_000
	trainedEpochs  = 60
)

// trainedRecipe returns the recipe of a trained checkpoint: the model's defaults, with few shared
// negatives instead of all entities, and without validation. MQuinE and MQuadE have the general
// defaults, with which the checkpoints of docs/performance.md were trained.
func trainedRecipe(r row, g *kg.Graph) (recipe.Recipe, error) {
	c, err := recipe.DefaultFor(r.model)
	if err != nil {
		return c, err
	}
	triples, err := g.Triples(kg.Train)
	if err != nil {
		return c, err
	}
	n := max(1, len(triples))
	switch r.model {
	case "mquine", "mquade":
		c = recipe.Default()
		c.Model = r.model
	case "transe-l1", "transe-l2", "rotate":
		// The initial range of the parameters is proportional to 1/d, so the steps should be too.
		c.LearningRate *= float64(c.Dim) / float64(r.dim)
	}
	c.Dim, c.Batch, c.Epochs = r.dim, 512, min((trainedTriples+n-1)/n, trainedEpochs)
	c.Negatives, c.NegativeCount, c.AnswerWeights = recipe.SharedNegatives, 256, false
	c.Decay, c.EMA, c.ValidEvery = recipe.LinearDecay, 0, 0
	return c, c.CheckData(g)
}

// trainedName names a trained checkpoint. The name depends on the recipe, the data set and the
// instruction set, which determine the checkpoint, so a new recipe trains a new checkpoint.
func trainedName(c recipe.Recipe, g *kg.Graph, m train.Machine) string {
	// fmt prints maps in the order of their keys.
	sum := sha256.Sum256(fmt.Appendln(nil, c.Line(), run.FingerprintOf(g)))
	return fmt.Sprintf("%s-%s-%d-trained-%v-%x", g.Name, c.Model, c.Dim, m.Backend.Tier, sum[:6])
}

// makeTrained returns the folder of a trained checkpoint. If the folder is missing, makeTrained
// trains the checkpoint first. An interrupted run leaves no folder.
func (o *options) makeTrained(ctx context.Context, g *kg.Graph, m train.Machine) (string, error) {
	c, err := trainedRecipe(o.row, g)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(o.work, trainedName(c, g, m))
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		return folder, err
	}
	fmt.Fprintf(o.log, "training %s\n", folder)
	t, err := train.NewTrainer(ctx, c, g, m)
	if err != nil {
		return "", err
	}
	for range c.Epochs {
		e, err := t.Epoch(ctx)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(o.log, "epoch %d of %d: loss %.4f, %.1f s\n", e.Epoch, c.Epochs, e.Loss.Total, e.Seconds)
	}
	notes := map[string]string{"dataset": g.Name, "training": c.Line()}
	return folder, checkpoint.Save(ctx, folder, t.Model(), g.Entities, g.Relations, notes)
}
