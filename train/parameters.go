package train

import (
	"fmt"

	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/model"
)

// parameterTable is a tensor of a model. A tensor of entities or relations has a row for each of
// them, and a global tensor has one row.
type parameterTable struct {
	name   string
	axis   model.Axis
	frozen bool
	width  int // length of a row
	// dim is the dimension of the square matrices in a row if they map entities (model.Parameter.Maps).
	// Otherwise it is 0.
	dim    int
	values []float32
	// constrain, if not nil, changes a row so that it satisfies the constraint of the model.
	constrain func(row []float32)
}

func (t *parameterTable) row(i int) []float32 { return t.values[i*t.width : (i+1)*t.width] }
func (t *parameterTable) rows() int           { return len(t.values) / t.width }

// matrix returns the table as a matrix, which shares its memory.
func (t *parameterTable) matrix() linalg.Matrix {
	return linalg.Matrix{Data: t.values, Rows: t.rows(), Cols: t.width, Stride: t.width}
}

// tablesOf returns the tensors of a model in the model's order, which begins with the table of
// entities.
func tablesOf(m model.Model) []parameterTable {
	var tables []parameterTable
	for i, p := range parametersOf(m) {
		t := parameterTable{
			name: p.Name, axis: p.Axis, frozen: p.Frozen, width: p.Width(), values: m.Tensors()[i],
			constrain: p.Constrain,
		}
		if p.Maps {
			t.dim = p.Row[len(p.Row)-1]
		}
		tables = append(tables, t)
	}
	return tables
}

// parametersOf returns the declarations of a model's tensors.
func parametersOf(m model.Model) []model.Parameter {
	list, err := model.Parameters(m.Config())
	if err != nil {
		panic(err) // the configuration of a model is valid
	}
	return list
}

// checkLayout returns an error if the trainer cannot train the tensors of a model. The trainer updates the
// rows of entities in tensor 0 only, counts relations by tensor 1, and joins the gradients of a relation's
// rows in all tensors without gaps for frozen ones. Only a model.Network computes gradients of global
// tensors.
func checkLayout(m model.Trainable) error {
	list := parametersOf(m)
	fault := func(format string, arguments ...any) error {
		return fmt.Errorf("train: the trainer cannot train the tensors of model %s: %s",
			m.Config().Model, fmt.Sprintf(format, arguments...))
	}
	if len(list) < 2 || list[0].Axis != model.PerEntity || list[1].Axis != model.PerRelation {
		return fault("the first must be PerEntity, and the second PerRelation")
	}
	_, network := m.(model.Network)
	for i, p := range list {
		switch {
		case p.Axis == model.PerEntity && i > 0:
			return fault("%q is another PerEntity tensor", p.Name)
		case p.Axis != model.Global && p.Frozen:
			return fault("%q is Frozen but not Global", p.Name)
		case p.Axis == model.Global && !p.Frozen && !network:
			return fault("%q is Global and has gradients, but it is not a Network", p.Name)
		}
	}
	return nil
}

// tablesWith returns the tables of the given axis, except frozen tables, which have no gradients.
func tablesWith(axis model.Axis, tables []parameterTable) (list []parameterTable) {
	for _, t := range tables {
		if t.axis == axis && !t.frozen {
			list = append(list, t)
		}
	}
	return list
}

// totalWidth returns the number of parameters in one row of every table.
func totalWidth(tables []parameterTable) (n int) {
	for _, t := range tables {
		n += t.width
	}
	return n
}

// relationSize returns the number of parameters of a relation, in all tables.
func relationSize(tables []parameterTable) (n int) {
	for _, t := range tables {
		if t.axis == model.PerRelation {
			n += t.width
		}
	}
	return n
}
