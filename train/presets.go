package train

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mquine/mquine/model"
)

// row is a line of the paper's table of hyper-parameters ("The best hyperparameters of MQuinE").
type row struct {
	dataset         string
	k, d, batch     int
	alpha, gamma    float64
	m               int
	lambdaReg, lneg float64
}

var paperRows = []row{
	{"fb15k-237", 32, 38, 1024, 0.5, 12, 256, 0.01, 1},
	{"wn18", 64, 35, 1024, 1, 9, 256, 5e-3, 1},
	{"wn18rr", 64, 35, 1024, 0.5, 12, 512, 0.01, 1},
	{"yago3-10", 64, 18, 4096, 1, 32, 512, 5e-3, 1},
	{"codex-s", 32, 32, 1024, 0.5, 12, 256, 0.01, 1},
	{"codex-m", 32, 32, 1024, 0.5, 12, 256, 0.01, 1},
	{"codex-l", 32, 32, 1024, 0.5, 12, 256, 5e-3, 1},
}

// bestRows are the recipes that docs/results.md has measured, as changes of the defaults.
var bestRows = map[string]func(*Config){
	"codex-s": func(c *Config) {
		codex(c)
		c.Dim, c.Epochs, c.Batch = 48, 80, 128
		c.Dropout, c.Average, c.ValidEvery = 0.5, 0.95, 8
	},
	"codex-m": func(c *Config) {
		codex(c)
		c.Epochs, c.Batch = 56, 256
		c.InitDeviation, c.LearningRate = 0.05, 4e-3
	},
	"fb15k-237": func(c *Config) {
		averaged(c)
		c.Dim, c.Epochs, c.Batch = 40, 36, 512
		c.Negatives, c.NegativeCount = sharedNegatives, 4096
		c.InitDeviation = 0.02
		c.Regulariser, c.LambdaReg = duraRegulariser, 0.05
		c.Dropout, c.EntityDropout = 0.4, 0.1
		c.LearningRate, c.ValidEvery = 3e-3, 3
	},
	"wn18": func(c *Config) {
		wordNet(c)
		c.Regulariser, c.LambdaReg, c.RegWarmup = frobeniusRegulariser, 0.05, 8
		c.LearningRate, c.Decay, c.Epochs = 3e-3, cosineDecay, 14
	},
	"wn18rr": func(c *Config) {
		wordNet(c)
		averaged(c)
		c.Regulariser, c.LambdaReg, c.RegWarmup = duraRegulariser, 0.2, 12
		c.Dropout = 0.1
		c.LearningRate, c.Epochs = 4e-3, 36
	},
}

// averaged takes the average of ten or more epochs at one learning rate, which ranks better than the
// last epoch of a rate that falls, on every data set where both were tried (docs/results.md).
func averaged(c *Config) { c.Average, c.Decay = 0.9, noDecay }

// codex is for the CoDEx graphs: dropout and a weak regulariser together do more than either.
func codex(c *Config) {
	averaged(c)
	c.Dim = 32
	c.Negatives, c.AnswerWeights = kvsAllNegatives, true
	c.Regulariser, c.LambdaReg = duraRegulariser, 0.01
	c.Dropout, c.EntityDropout = 0.4, 0.1
	c.LearningRate, c.ValidEvery = 3e-3, 4
}

// wordNet is for WordNet, whose entities have few triples and whose relations are symmetric in part.
func wordNet(c *Config) {
	c.Dim, c.Batch = 32, 512
	c.Negatives, c.NegativeCount, c.AnchorNegatives = sharedNegatives, 2048, true
	c.InitDeviation = 0.02
	c.Dropout, c.EntityDropout = 0, 0.1
	c.ValidEvery = 3
}

// Presets returns the names that Preset takes, the rows of both kinds after the kinds.
func Presets() []string {
	names := []string{"paper", "best"}
	for _, r := range paperRows {
		names = append(names, "paper:"+r.dataset)
	}
	for _, name := range slices.Sorted(maps.Keys(bestRows)) {
		names = append(names, "best:"+name)
	}
	return names
}

// Preset returns the options of a preset for a data set: "paper", its row of the paper's table, or
// "best", the best recipe of docs/results.md. A colon and the name of a data set take another row.
func Preset(preset, dataset string) (Config, error) {
	kind, name, named := strings.Cut(preset, ":")
	if !named {
		name = dataset
	}
	c := Default()
	var rows []string
	switch kind {
	case "paper":
		for _, r := range paperRows {
			if r.dataset == name {
				r.apply(&c)
				return c, nil
			}
			rows = append(rows, r.dataset)
		}
	case "best":
		if change, ok := bestRows[name]; ok {
			change(&c)
			return c, nil
		}
		rows = slices.Sorted(maps.Keys(bestRows))
	default:
		return c, fmt.Errorf("preset %q: the presets are paper and best, with the data set's row, or another one as in paper:yago3-10", preset)
	}
	return c, fmt.Errorf("preset %s has no row for data set %q: take one of its rows by name, as in %s:%s; they are %s",
		kind, name, kind, rows[0], strings.Join(rows, ", "))
}

// apply sets what the paper states. Where it is silent: Adam with η = 1e-3, λ_Z = 1.
func (r row) apply(c *Config) {
	c.Dim, c.Batch = r.d, r.batch
	c.Negatives, c.NegativeCount, c.Filter = independentNegatives, r.m, true
	c.Loss, c.Gamma, c.LambdaNeg, c.Adversarial = paperLoss, r.gamma, r.lneg, r.alpha
	c.ZSamples, c.LambdaZ = r.k, 1
	c.Regulariser, c.LambdaReg, c.Dropout = frobeniusRegulariser, r.lambdaReg, 0
	c.Optimiser, c.LearningRate = adamOptimiser, 1e-3
	c.InitDeviation, c.InitCross = model.EntityDeviation, identityCross
	c.Epochs = 100
}
