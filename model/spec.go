package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Config names a model and gives its sizes.
type Config struct {
	// Model is the registered name, such as "mquine".
	Model string
	// Dim is the dimension d of the model's paper, with the exceptions in docs/models/README.md.
	// For complex and rotate, for example, it is the number k of complex numbers in a row.
	Dim int
	// Entities and Relations are the numbers N and R of entities and relations.
	Entities, Relations int
	// Hyper maps the keys of hyper-parameters to their values. A missing key means the default. Do
	// not modify the map of a model.
	Hyper map[string]float64
	// Reciprocal reports whether every relation has an inverse with separate parameters, which
	// answers the head queries.
	Reciprocal bool
	// InverseWeight is the weight w of the inverse triple in the score of a model with reciprocal
	// relations, (1 − w) s(h, r, t) + w s(t, r⁻¹, h) for tail queries. It is from 0 to 1, and 0
	// without reciprocal relations.
	InverseWeight float64

	// tailsOnly marks the underlying model of a model with reciprocal relations that scores in one
	// direction. It answers only tail queries.
	tailsOnly bool
}

// Spec declares a model. Each model's file declares a variable of this type.
type Spec struct {
	// Name is the name in commands and checkpoints, such as "distmult".
	Name string
	// Title is the spelling in papers, such as "DistMult". Empty means Name.
	Title string
	// Score is the formula of the printed score, in one line.
	Score string
	// MaxDim is the largest dimension.
	MaxDim int
	Hyper  []*HyperParameter
	// Tensors lists the parameters of a model, given a valid configuration. It leaves
	// Parameter.Rows unset.
	Tensors func(Config) []Parameter
	// Build returns the model with the given tensors, which have been checked. It must also accept
	// empty tensors, because Unfilled calls it with them.
	Build func(Tables) Model
	// Sided reports whether the score of a triple depends on the side of the query even without
	// reciprocal relations. If Sided is nil or returns false, Reference must return the same bits
	// for both sides.
	Sided func(Config) bool
	// TrainReciprocal reports whether the model can be trained only with reciprocal relations.
	TrainReciprocal bool
	// Start says what a training run can choose about its initial parameters.
	Start Starting
	// Recipe holds the training options whose defaults differ for this model, by their keys in
	// package recipe, such as "dropout": "0".
	Recipe map[string]string
}

// Check returns an error if the configuration is invalid.
func (s *Spec) Check(c Config) error {
	if c.Dim < 1 || c.Dim > s.MaxDim {
		return fmt.Errorf("model %s: dimension %d is out of range: it must be from 1 to %d", s.Name, c.Dim, s.MaxDim)
	}
	if c.Entities < 0 || c.Relations < 0 {
		return fmt.Errorf("model %s: %d entities and %d relations: neither may be negative",
			s.Name, c.Entities, c.Relations)
	}
	if err := c.checkInverseWeight(); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(c.Hyper)) {
		if !slices.ContainsFunc(s.Hyper, func(h *HyperParameter) bool { return h.Key == key }) {
			return fmt.Errorf("model %s has no hyper-parameter %s: it has %s", s.Name, key, s.hyperKeys())
		}
	}
	for _, h := range s.Hyper {
		if err := h.check(c); err != nil {
			return err
		}
	}
	return nil
}

func (s *Spec) hyperKeys() string {
	var keys []string
	for _, h := range s.Hyper {
		keys = append(keys, h.Key)
	}
	if keys == nil {
		return "none"
	}
	return strings.Join(keys, ", ")
}

// Initial returns c with the initial values of new models for the hyper-parameters that c lacks.
func (s *Spec) Initial(c Config) Config {
	hyper := map[string]float64{}
	maps.Copy(hyper, c.Hyper)
	c.Hyper = hyper
	for _, h := range s.Hyper {
		if _, given := hyper[h.Key]; !given && h.Initial != nil {
			hyper[h.Key] = h.Initial(c)
		}
	}
	return c
}

// WithoutDefaults returns c without the hyper-parameters that checkpoints omit because they have
// their default values. A default out of bounds stays, so that Check can report it.
func (s *Spec) WithoutDefaults(c Config) Config {
	c.Hyper = maps.Clone(c.Hyper)
	for _, h := range s.Hyper {
		if v, given := c.Hyper[h.Key]; given && v == h.Default && h.allows(v) {
			delete(c.Hyper, h.Key)
		}
	}
	if len(c.Hyper) == 0 {
		c.Hyper = nil
	}
	return c
}

// Parameters describes the tensors of a model, in the order that New expects.
func (s *Spec) Parameters(c Config) ([]Parameter, error) {
	if err := s.Check(c); err != nil {
		return nil, err
	}
	list := s.Tensors(c.inner())
	for i := range list {
		if c.Reciprocal {
			list[i] = list[i].withReciprocal()
		}
		list[i].Rows = [...]int{PerEntity: c.Entities, PerRelation: c.Relations, Global: 1}[list[i].Axis]
	}
	return list, nil
}

// New builds a model from tensors in the order of Parameters. The model keeps the slices and never
// writes to them. It copies c.Hyper.
func (s *Spec) New(c Config, tensors [][]float32) (Model, error) {
	parameters, err := s.Parameters(c)
	if err != nil {
		return nil, err
	}
	c.Hyper = maps.Clone(c.Hyper)
	if len(tensors) != len(parameters) {
		return nil, fmt.Errorf("model %s has %d tensors, not %d", s.Name, len(parameters), len(tensors))
	}
	for i, p := range parameters {
		if len(tensors[i]) != p.Len() {
			return nil, fmt.Errorf("model %s: tensor %s must have %d elements (%v), not %d",
				s.Name, p.Name, p.Len(), p.Dims(), len(tensors[i]))
		}
		if !p.NonNegative {
			continue
		}
		if at := slices.IndexFunc(tensors[i], func(v float32) bool { return !(v >= 0) }); at >= 0 {
			return nil, fmt.Errorf("model %s: tensor %q has %v in row %d, column %d (counted from 0), but it must not "+
				"have negative entries", s.Name, p.Name, tensors[i][at], at/p.Width(), at%p.Width())
		}
	}
	return s.build(c, parameters, tensors)
}

// build is New without the checks of the tensors, which may be empty.
func (s *Spec) build(c Config, parameters []Parameter, tensors [][]float32) (Model, error) {
	if !c.Reciprocal {
		return s.Build(newTables(c, parameters, tensors)), nil
	}
	inner := c.inner()
	parameters, err := s.Parameters(inner)
	if err != nil {
		return nil, err
	}
	return newReciprocal(c, s.Build(newTables(inner, parameters, tensors)))
}

// IsSided reports whether the score of a triple depends on the side of the query.
func (s *Spec) IsSided(c Config) bool { return c.Reciprocal || s.Sided != nil && s.Sided(c) }
