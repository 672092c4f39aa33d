package ownmodel_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg/synth"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"
)

// Tensors that the trainer would train wrongly, or not at all, are an error before any memory is
// allocated.
func TestLayouts(t *testing.T) {
	g, _, err := synth.Families(t.Context(), synth.Config{Seed: 1})
	require.NoError(t, err)
	backend, err := kernel.New()
	require.NoError(t, err)
	machine := train.Machine{Backend: backend, Threads: 1}
	row := []int{4}
	more := func(p model.Parameter) func([]model.Parameter) []model.Parameter {
		return func(list []model.Parameter) []model.Parameter { return append(list, p) }
	}
	for _, c := range []struct {
		name   string
		change func([]model.Parameter) []model.Parameter
		want   string // the reason in the error, or empty
	}{
		{"relation-first", func(list []model.Parameter) []model.Parameter {
			slices.Reverse(list)
			return list
		}, "the first must be PerEntity, and the second PerRelation"},
		{"no-relation", func(list []model.Parameter) []model.Parameter { return list[:1] },
			"the first must be PerEntity, and the second PerRelation"},
		{"two-entities", more(model.Parameter{Name: "bias", Axis: model.PerEntity, Row: row}),
			`"bias" is another PerEntity tensor`},
		{"frozen-entity", func(list []model.Parameter) []model.Parameter {
			list[0].Frozen = true
			return list
		}, `"entity" is Frozen but not Global`},
		{"frozen-relation", more(model.Parameter{Name: "scale", Axis: model.PerRelation, Row: row, Frozen: true}),
			`"scale" is Frozen but not Global`},
		{"global", more(model.Parameter{Name: "core", Axis: model.Global, Row: row}),
			`"core" is Global and has gradients, but it is not a Network`},
		{"frozen-global", more(model.Parameter{Name: "mean", Axis: model.Global, Row: row, Frozen: true}), ""},
		{"two-relations", more(model.Parameter{Name: "bias", Axis: model.PerRelation, Row: row}), ""},
	} {
		spec := *diagonal
		spec.Name = c.name
		spec.Tensors = func(config model.Config) []model.Parameter { return c.change(diagonal.Tensors(config)) }
		model.Register(&spec)
		options, err := recipe.DefaultFor(c.name)
		require.NoError(t, err)
		_, err = train.NewTrainer(t.Context(), options, g, machine)
		if c.want == "" {
			assert.NoError(t, err, c.name)
			continue
		}
		want := "train: the trainer cannot train the tensors of model " + c.name + ": " + c.want
		assert.EqualError(t, err, want)
		assert.EqualError(t, train.CheckMemory(t.Context(), g, machine, options), want)
		config := options.ModelConfig(g.Entities.Len(), g.Relations.Len())
		start, err := model.Begin(t.Context(), config, options.Start(), 1)
		require.NoError(t, err)
		_, err = train.NewTrainerFrom(t.Context(), options, g, machine, start)
		assert.EqualError(t, err, want)
	}
}
