package model

import (
	"fmt"
	"slices"

	"github.com/mquine/mquine/internal/text"
)

// specs are the registered models.
var specs = []*Spec{
	mquine, mquade, transeL1, transeL2, distMult, complEx, rotatE, pRotatE, rotatEL2, modE,
	rescal, cp, simplE, quatE, dualE, dihEdral, seek, tuckER, convE,
	transHL1, transHL2, transRL1, transRL2, transDL1, transDL2, ote, house, hake,
	boxE, expressive, expressiveFunctional,
}

// Register adds a model that another package defines. Call it before any other function uses a
// model. It panics if the name is taken.
func Register(s *Spec) {
	if _, err := Lookup(s.Name); err == nil {
		panic("model: " + s.Name + " is already registered")
	}
	specs = append(specs, s)
}

// Specs returns the registered models, in the order of registration.
func Specs() []*Spec { return slices.Clone(specs) }

// Names returns the names of the registered models, in the order of Specs.
func Names() []string {
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	return names
}

// Lookup returns the registered model with the given name.
func Lookup(name string) (*Spec, error) {
	i := slices.IndexFunc(specs, func(s *Spec) bool { return s.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("unknown model %q: %s", name, text.Choose(name, Names()))
	}
	return specs[i], nil
}

// HyperParameters returns the hyper-parameters of all registered models, without repeated keys.
func HyperParameters() []*HyperParameter {
	var list []*HyperParameter
	for _, s := range specs {
		for _, h := range s.Hyper {
			if !slices.ContainsFunc(list, func(other *HyperParameter) bool { return other.Key == h.Key }) {
				list = append(list, h)
			}
		}
	}
	return list
}

// ScoreNotes returns the notes about printed scores (HyperParameter.Missing) for the
// hyper-parameters that have their default values in c.
func ScoreNotes(c Config) []string {
	var notes []string
	if s, err := Lookup(c.Model); err == nil {
		for _, h := range s.Hyper {
			if h.Missing != "" && h.Of(c) == h.Default {
				notes = append(notes, h.Missing)
			}
		}
	}
	return notes
}

// Parameters calls Spec.Parameters for the model that c names.
func Parameters(c Config) ([]Parameter, error) {
	s, err := Lookup(c.Model)
	if err != nil {
		return nil, err
	}
	return s.Parameters(c)
}

// New calls Spec.New for the model that c names.
func New(c Config, tensors [][]float32) (Model, error) {
	s, err := Lookup(c.Model)
	if err != nil {
		return nil, err
	}
	return s.New(c, tensors)
}

// InitialConfig calls Spec.Initial for the model that c names and checks the result.
func InitialConfig(c Config) (Config, error) {
	s, err := Lookup(c.Model)
	if err != nil {
		return c, err
	}
	c = s.Initial(c)
	return c, s.Check(c)
}
