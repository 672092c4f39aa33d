package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/model"
)

// addHyper adds a flag for every hyper-parameter of the models with the given names. The returned
// function collects the values that the user gave.
func addHyper(cmd *cobra.Command, models []string) func() map[string]float64 {
	values := map[string]*float64{}
	list := hyperParameters(models)
	for _, h := range list {
		help := fmt.Sprintf("%s (%s)", h.Help, strings.Join(modelsWith(h.Key, models), ", "))
		values[h.Key] = new(float64)
		cmd.Flags().Var(number{values[h.Key]}, h.Flag(), help)
		inGroup(cmd, modelFlags, h.Flag())
	}
	return func() map[string]float64 {
		given := map[string]float64{}
		for _, h := range list {
			if cmd.Flags().Changed(h.Flag()) {
				given[h.Key] = *values[h.Key]
			}
		}
		return given
	}
}

// hyperParameters returns the hyper-parameters that at least one of the models has.
func hyperParameters(models []string) []*model.HyperParameter {
	return slices.DeleteFunc(model.HyperParameters(), func(h *model.HyperParameter) bool {
		return modelsWith(h.Key, models) == nil
	})
}

// modelsWith returns the models that have the hyper-parameter with the given key, in the order of
// registration.
func modelsWith(key string, models []string) (names []string) {
	for _, s := range model.Specs() {
		has := slices.ContainsFunc(s.Hyper, func(h *model.HyperParameter) bool { return h.Key == key })
		if has && slices.Contains(models, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}
