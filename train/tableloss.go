package train

import (
	"context"
	"math"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
)

// tableLoss is the loss of a model with one row for each entity and one for each relation.
type tableLoss struct {
	form      form
	threads   int
	entities  *parameters
	relations *parameters

	batch
	width   int         // of a query's vector
	queried [][]float64 // [query][width], the vectors q
	weights [][]float64 // [query][entity], ∂L/∂scores
	anchors [][]float64 // [query][width], the gradients of the anchors' vectors
	related [][]float64 // [query][width], those of the relations' vectors
	scratch [][]float64 // by goroutine: [width]
}

// parameters are a tensor of rows and the vectors that they stand for.
type parameters struct {
	*adam
	// unit is the phase that a value of 1 stands for if values are phases, else 0.
	unit    float64
	vectors [][]float64
}

func newParameters(values []float32, rows int, phases bool, unit float64) *parameters {
	width := len(values) / max(rows, 1)
	p := &parameters{adam: newAdam(values, rows, width)}
	if phases {
		p.unit = unit
		width *= 2
	}
	p.vectors = matrix(rows, width)
	for i := range rows {
		p.update(i)
	}
	return p
}

func matrix(rows, width int) [][]float64 {
	m, all := make([][]float64, rows), make([]float64, rows*width)
	for i := range m {
		m[i] = all[i*width : (i+1)*width]
	}
	return m
}

// update computes the vector of row i.
func (p *parameters) update(i int) {
	row, vector := p.values[i*p.width:(i+1)*p.width], p.vectors[i]
	if p.unit == 0 {
		for k, v := range row {
			vector[k] = float64(v)
		}
		return
	}
	re, im := halves(vector)
	for k, v := range row {
		im[k], re[k] = sinCos(float64(p.unit * float64(v)))
	}
}

// add adds the gradient of row i's vector to that of the row.
func (p *parameters) add(i int, gradient []float64) {
	row := p.row(i)
	if p.unit == 0 {
		for k, v := range gradient {
			row[k] += v
		}
		return
	}
	re, im := halves(p.vectors[i])
	dRe, dIm := halves(gradient)
	for k := range row {
		row[k] += float64(p.unit * (float64(re[k]*dIm[k]) - float64(im[k]*dRe[k])))
	}
}

// step moves row i against its gradient.
func (p *parameters) step(i int, rate float64) {
	p.adam.step(i, rate)
	p.update(i)
}

func newTableLoss(m model.Model, triples int, o Options) *tableLoss {
	c, f := m.Config(), forms[m.Config().Model]
	// As the models have it, but for π's digits.
	unit := math.Pi / c.Hyper[model.EmbeddingRange]
	l := &tableLoss{
		form: f, threads: o.Threads,
		entities:  newParameters(m.Tensors()[0], c.Entities, f.entityPhases, unit),
		relations: newParameters(m.Tensors()[1], c.Relations, f.relationPhases, unit),
		batch:     newBatch(c.Entities),
	}
	l.width = len(l.entities.vectors[0])
	l.queried, l.anchors, l.related = matrix(2*triples, l.width), matrix(2*triples, l.width), matrix(2*triples, l.width)
	l.weights, l.scratch = matrix(2*triples, c.Entities), matrix(o.Threads, l.width)
	return l
}

func (l *tableLoss) gradient(ctx context.Context) error {
	if err := kernel.Parallel(ctx, l.threads, len(l.queries), func(w, i int) { l.query(l.scratch[w], i) }); err != nil {
		return err
	}
	return kernel.Parallel(ctx, l.threads, len(l.blocks)+len(l.asked), func(w, i int) {
		if i < len(l.blocks) {
			l.relationGradient(l.blocks[i])
			return
		}
		l.entityGradient(l.scratch[w], i-len(l.blocks))
	})
}

// query computes ∂L/∂scores of query i, and the gradients of its anchor's and relation's vectors.
func (l *tableLoss) query(dq []float64, i int) {
	q := &l.queries[i]
	anchor, relation := l.entities.vectors[q.Anchor], l.relations.vectors[q.Relation]
	l.form.query(l.queried[i], q.Side, anchor, relation)
	weights := l.weights[i]
	for e, v := range l.entities.vectors {
		weights[e] = l.form.score(l.queried[i], v)
	}
	softmax(weights, q.answers)
	clear(dq)
	for e, v := range l.entities.vectors {
		weights[e] /= float64(l.answers)
		l.form.gradient(dq, weights[e], l.queried[i], v)
	}
	l.form.queryGradient(l.anchors[i], l.related[i], q.Side, anchor, relation, dq)
}

// relationGradient adds up the gradient of a relation.
func (l *tableLoss) relationGradient(b span) {
	r := int(l.queries[b.first].Relation)
	clear(l.relations.row(r))
	for i := b.first; i < b.last; i++ {
		l.relations.add(r, l.related[i])
	}
}

// entityGradient adds up the gradient of an entity, as a candidate and as an anchor.
func (l *tableLoss) entityGradient(sum []float64, e int) {
	clear(sum)
	for i := range l.queries {
		// Scores are symmetric: a candidate's gradient is that of a query with the two exchanged.
		l.form.gradient(sum, l.weights[i][e], l.entities.vectors[e], l.queried[i])
	}
	for _, i := range l.asked[e] {
		for k, v := range l.anchors[i] {
			sum[k] += v
		}
	}
	clear(l.entities.row(e))
	l.entities.add(e, sum)
}

func (l *tableLoss) step(ctx context.Context, rate float64) error {
	return kernel.Parallel(ctx, l.threads, len(l.blocks)+len(l.asked), func(_, i int) {
		if i < len(l.blocks) {
			l.relations.step(int(l.queries[l.blocks[i].first].Relation), rate)
			return
		}
		l.entities.step(i-len(l.blocks), rate)
	})
}
