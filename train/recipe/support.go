package recipe

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/model"
)

// checkModel returns an error that names all options that the model does not support.
func (r *Recipe) checkModel() error {
	spec, err := model.Lookup(r.Model)
	if err != nil {
		return err
	}
	if err := r.checkHyper(spec); err != nil {
		return err
	}
	config, err := model.StartConfig(r.ModelConfig(1, 1), r.Start())
	if err != nil {
		return err
	}
	m, err := model.Unfilled(config)
	if err != nil {
		return err
	}
	parameters, err := model.Parameters(config)
	if err != nil {
		return err
	}
	_, network := m.(model.Network)
	s := support{
		r: r, spec: spec, training: m.Training(), network: network, depends: model.DependenceOf(m),
		parameters: parameters,
	}
	s.checkRegularisers()
	s.checkRelationPrediction()
	s.checkScores()
	s.checkStart()
	s.checkDropouts()
	if s.refused != nil {
		return errors.New(strings.Join(s.refused, "; "))
	}
	return nil
}

// support collects what is wrong with a recipe because its model does not support it.
type support struct {
	r          *Recipe
	spec       *model.Spec
	training   model.Training
	network    bool             // the model is a model.Network
	depends    model.Dependence // what features depend on
	parameters []model.Parameter
	refused    []string
}

// refuse adds a reason to refuse the recipe.
func (s *support) refuse(format string, args ...any) {
	s.refused = append(s.refused, fmt.Sprintf(format, args...))
}

func (s *support) checkRegularisers() {
	r, t := s.r, s.training
	if !slices.Contains(t.Penalties, r.Regulariser) {
		var others []string
		for _, p := range t.Penalties {
			others = append(others, string(p))
		}
		s.refuse("regulariser: model %s does not support %s: set it to %s", r.Model, r.Regulariser,
			text.Join(others, "or"))
	}
	if r.DuraPair > 0 && t.Relations == nil {
		s.refuse("dura_pair: the score of model %s is not linear in the relation's parameters: set it to 0", r.Model)
	}
	if r.Orthogonality > 0 && !slices.ContainsFunc(s.parameters, func(p model.Parameter) bool { return p.Maps }) {
		s.refuse("orthogonality: model %s does not support it: set it to 0", r.Model)
	}
}

func (s *support) checkRelationPrediction() {
	switch r := s.r; {
	case r.RelationWeight == 0 || s.training.Relations != nil:
	case s.network:
		s.refuse("relation_weight: model %s is a network: set it to 0", r.Model)
	case s.depends != model.OnEntity:
		s.refuse("relation_weight: the features of model %s depend on more than the entity: set it to 0", r.Model)
	}
}

// checkScores checks the options whose support depends on the form of the score.
func (s *support) checkScores() {
	r, t := s.r, s.training
	if r.BlockLosses && t.Blocks == 0 {
		s.refuse("block_losses: model %s does not have several blocks: set it to false or, in mquine and mquade, set "+
			"hyper to blocks=2", r.Model)
	}
	if r.Unsquared && !t.Squared {
		s.refuse("unsquared: the score of model %s is not a squared norm: set it to false", r.Model)
	}
	if s.spec.TrainReciprocal && !r.Reciprocal {
		s.refuse("reciprocal: model %s can be trained only with reciprocal relations: set it to true", r.Model)
	}
	if r.Products != Float32 && (t.Distance != nil || t.Region != nil) {
		s.refuse("products: model %s computes distances, not products: set it to %s", r.Model, Float32)
	}
	if s.network && r.Batch == 1 && (r.Negatives == KvsAll || r.Distribution == Bernoulli) {
		s.refuse("batch: model %s normalises each step, and so needs at least two queries in it: set batch to 2 or "+
			"more", r.Model)
	}
}

func (s *support) checkStart() {
	r := s.r
	if r.InitCross != ZeroCross && s.spec.Start.Cross == "" {
		s.refuse("init_cross: model %s has no cross matrix: set it to %s", r.Model, ZeroCross)
	}
	if r.InitStd != model.EntityDeviation && !s.spec.Start.Deviates() {
		s.refuse("init_std: model %s has a fixed initial distribution: leave init_std at %v", r.Model,
			model.EntityDeviation)
	} else if r.InitStd == 0 {
		s.refuse("init_std: with zero entities, model %s has zero gradients: set a positive value", r.Model)
	}
}

func (s *support) checkDropouts() {
	r := s.r
	switch {
	case r.RelationDropout == 0:
	case s.network:
		s.refuse("relation_dropout: model %s is a network: set it to 0, and use the dropout of its layers", r.Model)
	case s.depends&model.OnRelation != 0:
		s.refuse("relation_dropout: the relation of model %s also transforms the candidates: set it to 0", r.Model)
	}
	for layer, probability := range r.LayerDropout() {
		if probability > 0 && !slices.Contains(s.training.Layers, model.Layer(layer)) {
			s.refuse("%s: model %s has no such layer: set it to 0", layerKeys[layer], r.Model)
		}
	}
}
