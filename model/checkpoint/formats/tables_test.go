package formats

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model"
)

// A joined table has a type other than float32 if one of its parts has, so a note reports the
// conversion.
func TestJoinedType(t *testing.T) {
	const d = 4
	for _, converted := range []string{"", "lhs.weight", "rhs.weight"} {
		f := toolFolder(map[string][2]int{
			"lhs.weight": {toolEntities, d}, "rhs.weight": {toolEntities, d}, "rel.weight": {toolRelations, d},
		})
		f.Format = kbc
		for i := range f.Tensors {
			if f.Tensors[i].Name == converted {
				f.Tensors[i].Type = "float64"
			}
		}
		c, err := f.Convert()
		require.NoError(t, err)
		const note = "tensor entity was converted from float64 to float32"
		assert.Equal(t, converted != "", slices.Contains(c.Notes, note), converted)
	}
}

// Rows of complex numbers in pairs have an even width.
func TestPhasesOfPairs(t *testing.T) {
	for width, wrong := range map[int]bool{0: false, 2: false, 3: true, 5: true} {
		values := make([]float32, 2*width)
		for i := range values {
			values[i] = float32(1 - i%2)
		}
		phases, err := Tensor{"file", "r", "float32", []int{2, width}, func() []float32 { return values }}.phases()
		if wrong {
			assert.ErrorContains(t, err, `file: tensor "r" has rows of `)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, []int{2, width / 2}, phases.Shape)
	}
}

// An error about the hyper-parameters names the folder.
func TestTableModelOptions(t *testing.T) {
	f := toolFolder(map[string][2]int{"e": {toolEntities, 5}, "r": {toolRelations, 5}})
	config := model.Config{Model: "ote", Dim: 5, Hyper: map[string]float64{model.Group: 4}}
	_, err := f.tableModel(config, noInverses, f.Tensors...)
	assert.EqualError(t, err, "folder: model ote: group is 4: it must be a divisor of the dimension 5")
}
