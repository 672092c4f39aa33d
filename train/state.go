package train

import "github.com/mquine/mquine/model/checkpoint/safetensors"

// The prefixes of the tensor names in State.
const (
	valuePrefix   = "parameter."
	firstPrefix   = "moment1."
	secondPrefix  = "moment2."
	averagePrefix = "average."
)

// State returns the tensors that the next epoch needs: the parameters, the optimiser's moments and
// the EMA. It does not copy them. Random numbers need no state, because each draw depends only on
// the seed, the epoch, the step and the query.
func (t *Trainer) State() []safetensors.Float32 {
	var tensors []safetensors.Float32
	for i, table := range t.optimiser.tables {
		shape := []int{len(table.values) / table.width, table.width}
		add := func(prefix string, values []float32, shape []int) {
			if values != nil {
				tensors = append(tensors, safetensors.Float32{Name: prefix + table.name, Shape: shape, Values: values})
			}
		}
		add(valuePrefix, table.values, shape)
		add(firstPrefix, table.first, shape)
		add(secondPrefix, table.second, shape)
		if t.average != nil {
			add(averagePrefix, t.average.Tensors()[i], shape)
		}
	}
	return tensors
}

// Resume sets the number of epochs done. The caller must first copy a state of that epoch into the
// tensors of State.
func (t *Trainer) Resume(epochs int) {
	t.epoch = epochs
	t.optimiser.resume(epochs * t.StepsPerEpoch())
}
