package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/synth"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"

	_ "embed"
)

//go:embed authors_step.py
var authorsStepProgram []byte

// authors describes code of a model's authors that runs on a processor.
type authors struct {
	name, model string
	file        string // a file that identifies a checkout
	recipe      func(*recipe.Recipe)
	step        string
}

// authorsCode lists the supported code. An example of either program is one query. A positive of mquine
// is two, one for each side, so its batches have half the size.
var authorsCode = []authors{
	{
		name: "kbc", model: "complex", file: "kbc/models.py",
		// The README of kbc has these values for FB15k-237 with rank 1,000.
		recipe: func(c *recipe.Recipe) {
			c.Reciprocal, c.Negatives, c.Loss = true, recipe.OneVsAll, recipe.Softmax
			c.Batch, c.Gamma = 500, 0
			c.Optimiser, c.LearningRate, c.Regulariser, c.LambdaReg = "adagrad", 0.1, "n3", 0.05
		},
		step: "1,000 queries, all entities as candidates, softmax, N3, Adagrad",
	},
	{
		name: "KnowledgeGraphEmbedding", model: "rotate", file: "codes/model.py",
		// best_config.sh has these values for FB15k-237 with dimension 1,000, but batches of 1,024, whose
		// gradients need more than 20 GiB of memory in PyTorch.
		recipe: func(c *recipe.Recipe) {
			c.Negatives, c.NegativeCount, c.Filter, c.Loss = recipe.IndependentNegatives, 256, true, recipe.NSSA
			c.Adversarial, c.Gamma, c.Subsampling = 1, 9, true
			c.Batch, c.Optimiser, c.LearningRate, c.Regulariser = 128, "adam", 5e-5, "none"
		},
		step: "256 queries, 256 independent negatives for each, self-adversarial loss, Adam",
	},
}

// authorsIn returns the supported code that is in a folder.
func authorsIn(folder string) (authors, error) {
	for _, a := range authorsCode {
		_, err := os.Stat(filepath.Join(folder, a.file))
		if err == nil {
			return a, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return a, err
		}
	}
	return authors{}, fmt.Errorf("--code %s: neither kbc/models.py (kbc) nor codes/model.py (KnowledgeGraphEmbedding) "+
		"is there; clone one of the two repositories", folder)
}

// recipeFor returns the recipe of the authors' model with the given dimension.
func (a authors) recipeFor(dim int) (recipe.Recipe, error) {
	c, err := recipe.DefaultFor(a.model)
	c.Dim, c.Dropout, c.AnswerWeights, c.EMA = dim, 0, false, 0
	a.recipe(&c)
	return c, err
}

// start starts authors_step.py.
func (a authors) start(
	ctx context.Context, o *options, c recipe.Recipe, g *kg.Graph, tensors [][]float32,
) (*torch, error) {
	relations := g.Relations.Len()
	if c.Reciprocal {
		relations *= 2
	}
	return o.startSteps(ctx, "authors_step.py", authorsStepProgram, g, tensors, map[string]any{
		"entities": g.Entities.Len(), "relations": relations, "dim": c.Dim,
		"batch": 2 * c.Batch, "negatives": c.NegativeCount, "gamma": c.Gamma, "adversarial": c.Adversarial,
		"learning_rate": c.LearningRate, "lambda_reg": c.LambdaReg,
	}, o.code)
}

// authorsSteps returns the job that trains a model in mquine and in its authors' code, after a check
// of the code's scores.
func (o *options) authorsSteps(ctx context.Context, m train.Machine) (*stepJob, error) {
	a, err := authorsIn(o.code)
	if err != nil {
		return nil, err
	}
	if err := a.check(ctx, o, m); err != nil {
		return nil, err
	}
	fmt.Fprintf(o.log, "%s: scores equal mquine's on a small graph, within the rounding of float32\n", a.name)
	c, err := a.recipeFor(o.dim)
	if err != nil {
		return nil, err
	}
	return &stepJob{
		name:   fmt.Sprintf("model=%s/dim=%d", a.model, o.dim),
		step:   a.step,
		rival:  a.name,
		recipe: c,
		start: func(ctx context.Context, g *kg.Graph, tensors [][]float32) (*torch, error) {
			return a.start(ctx, o, c, g, tensors)
		},
		request: map[string]int{"steps": stepsPerRound},
		about:   func(t *torch) (string, error) { return a.name + " with torch " + t.started.Torch, nil },
	}, nil
}

// check compares the scores of all triples of a small graph, as tail and head queries, with mquine's.
func (a authors) check(ctx context.Context, o *options, m train.Machine) error {
	g, _, err := synth.Families(ctx, synth.Config{Entities: 60, Seed: 1})
	if err != nil {
		return err
	}
	triples, err := g.Triples(kg.Train)
	if err != nil {
		return err
	}
	c, err := a.recipeFor(10)
	if err != nil {
		return err
	}
	trainer, err := train.NewTrainer(ctx, c, g, m)
	if err != nil {
		return err
	}
	scored := trainer.Model()
	t, err := a.start(ctx, o, c, g, scored.Tensors())
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.ask(map[string]bool{"scores": true}, new(any)); err != nil {
		return err
	}
	raw, err := os.ReadFile(filepath.Join(t.folder, "scores.f32"))
	if err != nil {
		return err
	}
	theirs := make([]float32, 2*len(triples))
	if n, err := binary.Decode(raw, binary.LittleEndian, theirs); err != nil || n != len(raw) {
		return fmt.Errorf("%s: %d bytes of scores instead of %d", a.name, len(raw), 4*len(theirs))
	}
	worker := scored.NewWorker(m.Backend)
	var scores []float64
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		for _, triple := range triples {
			q, answer := triple.Query(side)
			scores = append(scores, scored.Score(worker.Reference(q, answer)))
		}
	}
	most := max(slices.Max(scores), -slices.Min(scores))
	for i, want := range scores {
		if got := float64(theirs[i]); !(math.Abs(got-want) <= 1e-5*most) {
			return fmt.Errorf("%s: the score of query %d is %v instead of %v", a.name, i, got, want)
		}
	}
	return nil
}
