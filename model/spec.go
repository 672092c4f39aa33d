package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Config says which model, and of which size.
type Config struct {
	// Model is the registered name, such as "mquine".
	Model string
	// Dim is the model's own dimension d; for complex and rotate the number k of complex ones.
	Dim int
	// Entities and Relations are the numbers N and R of rows.
	Entities, Relations int
	// Hyper has the hyper-parameters by their keys; one that is not there has its default. Do not
	// modify the map of a model.
	Hyper map[string]float64
}

// Spec declares a model. The variables in the models' files are the declarations of this package.
type Spec struct {
	Name string
	// Score is the formula of the score that the model prints, in one line.
	Score string
	// MaxDim is the largest d.
	MaxDim int
	Hyper  []*HyperParameter
	// Tensors lists the parameters of a model of a checked configuration, but for their numbers of rows.
	Tensors func(Config) []Parameter
	// Build makes the model on checked tensors.
	Build func(Tables) Model
	// Sided tells whether the score of a triple depends on the side that asks for it, as with
	// reciprocal relations. Nil stands for no: Reference then returns the same bits for both.
	Sided func(Config) bool
	// Start declares where a training may choose to begin.
	Start Starting
	// Recipe has the training options whose defaults differ for this model, by their keys in package recipe, such as
	// "dropout": "0".
	Recipe map[string]string
}

// Check says what is wrong with a configuration.
func (s *Spec) Check(c Config) error {
	if c.Dim < 1 || c.Dim > s.MaxDim || c.Entities < 0 || c.Relations < 0 {
		return fmt.Errorf("model %s: dimension %d (1 to %d), %d entities, %d relations: out of range",
			s.Name, c.Dim, s.MaxDim, c.Entities, c.Relations)
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

// Initial returns c with the hyper-parameters with which training begins in place of those that are
// not given.
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

// Parameters describes the tensors of a model, in their order.
func (s *Spec) Parameters(c Config) ([]Parameter, error) {
	if err := s.Check(c); err != nil {
		return nil, err
	}
	list := s.Tensors(c)
	for i := range list {
		list[i].Rows = [...]int{PerEntity: c.Entities, PerRelation: c.Relations, Global: 1}[list[i].Axis]
	}
	return list, nil
}

// New builds a model on the tensors, given in the order of Parameters. The model keeps the slices and
// never writes to them.
func (s *Spec) New(c Config, tensors [][]float32) (Model, error) {
	parameters, err := s.Parameters(c)
	if err != nil {
		return nil, err
	}
	if len(tensors) != len(parameters) {
		return nil, fmt.Errorf("model %s has %d tensors, not %d", s.Name, len(parameters), len(tensors))
	}
	for i, p := range parameters {
		if len(tensors[i]) != p.Len() {
			return nil, fmt.Errorf("model %s: tensor %s must have %d elements (%v), not %d",
				s.Name, p.Name, p.Len(), p.Dims(), len(tensors[i]))
		}
	}
	return s.Build(newTables(c, parameters, tensors)), nil
}
