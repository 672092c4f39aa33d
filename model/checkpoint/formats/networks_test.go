package formats

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model"
)

// tuckERFolder returns a PyKEEN model of TuckER whose batch normalisations have the given tensors.
func tuckERFolder(t *testing.T, norms ...string) *Folder {
	const d = 4
	f := pykeenModelOf{name: "TuckER", interaction: attributes{}, shapes: map[string][2]int{
		"entity_representations.0": {toolEntities, d}, "relation_representations.0": {toolRelations, d},
	}}.folder(t)
	others := map[string][2]int{"interaction.core_tensor": {d, d * d}}
	for _, name := range norms {
		others["interaction."+name] = [2]int{d, 1}
	}
	for _, tensor := range toolFolder(others).Tensors {
		if tensor.Shape[1] > 1 {
			tensor.Shape = []int{d, d, d}
		}
		f.Tensors = append(f.Tensors, tensor)
	}
	return f
}

// PyKEEN's TuckER has both batch normalisations or neither. Their scales and shifts may be missing.
func TestPyKEENTuckERNormalisations(t *testing.T) {
	const head, product = "head_batch_norm.", "head_relation_batch_norm."
	statistics := []string{
		head + "running_mean", head + "running_var", product + "running_mean", product + "running_var",
	}
	for _, c := range []struct {
		norms []string
		off   bool
		wrong string
	}{
		{nil, true, ""},
		{statistics, false, ""},
		{append([]string{head + "weight", product + "bias"}, statistics...), false, ""},
		{[]string{product + "weight"}, false, `tensor "interaction.head_batch_norm.running_mean" is missing`},
		{statistics[:3], false, `tensor "interaction.head_relation_batch_norm.running_var" is missing`},
	} {
		converted, err := convertPyKEEN(tuckERFolder(t, c.norms...))
		if c.wrong != "" {
			assert.ErrorContains(t, err, c.wrong)
			continue
		}
		require.NoError(t, err)
		_, off := converted.Config.Hyper[model.BatchNorm]
		assert.Equal(t, c.off, off, "%v", c.norms)
	}
}

// An expanded tensor is an error, although its name may be missing.
func TestExpandedNormalisation(t *testing.T) {
	var norms []string
	for _, prefix := range []string{"head_batch_norm.", "head_relation_batch_norm."} {
		for _, name := range []string{"weight", "bias", "running_mean", "running_var"} {
			norms = append(norms, prefix+name)
		}
	}
	for _, name := range norms {
		f := tuckERFolder(t, norms...)
		at := slices.IndexFunc(f.Tensors, func(x Tensor) bool { return strings.HasSuffix(x.Name, "."+name) })
		f.Tensors[at].Values = nil
		_, err := convertPyKEEN(f)
		assert.EqualError(t, err, `file: tensor "interaction.`+name+`" is expanded, so it has more elements than its `+
			"storage: clone it and save the file again")
	}
	f := toolFolder(map[string][2]int{"filters.weight": {2, 9}, "filters.bias": {2, 1}})
	for i := range f.Tensors {
		if f.Tensors[i].Name == "filters.weight" {
			f.Tensors[i].Shape = []int{2, 1, 3, 3}
		} else {
			f.Tensors[i].Values = nil
		}
	}
	_, err := f.convE(2, Tensor{Shape: []int{toolEntities, 5}}, Tensor{}, noInverses, convELayers{filters: "filters"})
	assert.ErrorContains(t, err, `tensor "filters.bias" is expanded`)
}
