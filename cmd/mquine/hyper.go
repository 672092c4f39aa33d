package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/model"
)

// addHyper adds a flag for every hyper-parameter of every model. The returned function collects the
// values that the user gave.
func addHyper(cmd *cobra.Command) func() map[string]float64 {
	values := map[string]*float64{}
	for _, h := range model.HyperParameters() {
		help := fmt.Sprintf("%s (%s)", h.Help, strings.Join(modelsWith(h.Key), ", "))
		values[h.Key] = new(float64)
		cmd.Flags().Var(number{values[h.Key]}, h.Flag(), help)
		inGroup(cmd, modelFlags, h.Flag())
	}
	return func() map[string]float64 {
		given := map[string]float64{}
		for _, h := range model.HyperParameters() {
			if cmd.Flags().Changed(h.Flag()) {
				given[h.Key] = *values[h.Key]
			}
		}
		return given
	}
}

// modelsWith returns the names of the models that have the hyper-parameter with the given key.
func modelsWith(key string) (names []string) {
	for _, s := range model.Specs() {
		for _, h := range s.Hyper {
			if h.Key == key {
				names = append(names, s.Name)
			}
		}
	}
	return names
}
