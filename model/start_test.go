package model_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model"
)

// The deviation changes the initial parameters if and only if Starting.Deviates returns true.
// Start.Cross changes them if and only if the model has a cross matrix.
func TestBegin(t *testing.T) {
	for _, name := range model.Names() {
		t.Run(name, func(t *testing.T) {
			spec, err := model.Lookup(name)
			require.NoError(t, err)
			begin := func(s model.Start) [][]float32 {
				m, err := model.Begin(t.Context(), model.Config{Model: name, Dim: 3, Entities: 7, Relations: 2}, s, 1)
				require.NoError(t, err)
				return m.Tensors()
			}
			plain := begin(model.Start{Gamma: 12, Deviation: 0.1})
			wide := begin(model.Start{Gamma: 12, Deviation: 0.4})
			if spec.Start.Deviates() {
				for k, v := range plain[0] {
					assert.InEpsilon(t, 4*v, wide[0][k], 1e-6)
				}
			} else {
				assert.Equal(t, plain, wide)
			}

			crossed := begin(model.Start{Gamma: 12, Deviation: 0.1, Cross: true})
			if name == "mquine" {
				assert.Equal(t, make([]float32, 18), plain[3])
				assert.Equal(t, []float32{1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1}, crossed[3])
				plain, crossed = plain[:3], crossed[:3]
			}
			assert.Equal(t, plain, crossed)
		})
	}
}

func TestUnfilled(t *testing.T) {
	c := model.Config{Model: "transe-l1", Dim: 3, Entities: 1 << 30, Relations: 5}
	m, err := model.Unfilled(c)
	require.NoError(t, err)
	assert.Equal(t, c, m.Config())
	assert.Equal(t, 3, m.Training().Width)

	for _, c := range []model.Config{ // their global tensors would need more than 30 GB
		{Model: "tucker", Dim: 512, Hyper: map[string]float64{model.RelationDim: 1 << 15}},
		{Model: "conve", Dim: 2048, Hyper: map[string]float64{model.Channels: 1024, model.ImageHeight: 64}},
	} {
		m, err = model.Unfilled(c)
		require.NoError(t, err)
		for _, tensor := range m.Tensors() {
			assert.Empty(t, tensor, c.Model)
		}
	}
	_, err = model.Unfilled(model.Config{Model: "transe"})
	assert.ErrorContains(t, err, `unknown model "transe"`)
}
