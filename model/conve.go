package model

import (
	"context"
	"math"

	"github.com/mquine/mquine/internal/fmath"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/initial"
)

// ConvE (Dettmers et al., 2018; docs/models/conve.md) has the score x·t + β_t, where the vector x
// is the output of a convolutional network. The network's input is an image: the embedding of h, as
// a × b pixels, above the embedding of r. With the batch normalisations N₀, N₁ and N₂,
//
//	x = relu(N₂(D relu(N₁(filters ∗ N₀(image) + bias)) + bias)).
//
// The row of an entity holds its bias β and then its embedding.
//
// The reference score is computed in float64, and every product and sum is rounded. A normalisation
// is x ↦ factor·x + shift with factor and shift from newAffine. An entry of a feature map is a
// chain that begins with the bias of its filter and adds weight times pixel, row by row of the
// filter, with columns in ascending order. An output of D is a chain that begins with its bias and
// adds weight times input. The inputs are the entries of the feature maps in order, row by row. The
// score is the chain over i from 0 of ψ_i φ_i.
//
// Towers: tail queries have ψ = [1, x] and φ = [β, e], the entity's row. Head queries have ψ = [β,
// t] and φ = [1, x], which depends on the relation. Reciprocal relations turn head queries into
// tail queries.

// The keys of the hyper-parameters.
const (
	ImageHeight = "image_height"
	Channels    = "channels"
	InputNorm   = "input_norm"
)

var (
	imageHeight = &HyperParameter{
		Key: ImageHeight, Help: "height of the image of an embedding, a divisor of dim", Whole: true,
		Initial: func(c Config) float64 { return float64(defaultHeight(c.Dim)) },
		Default: 1, Least: 1, Most: maxConvDim, Fits: divides,
	}
	channels = &HyperParameter{
		Key: Channels, Help: "number of filters and feature maps", Whole: true, Default: 32, Least: 1, Most: 1024,
	}
	inputNorm = &HyperParameter{
		Key: InputNorm, Help: "1 with batch normalisation of the image, 0 without", Whole: true,
		Default: 1, Least: 0, Most: 1,
	}
)

const (
	maxConvDim = 2048
	filterSize = 3 // a smaller image has smaller filters
)

// defaultHeight returns the least divisor of d that makes an image at least twice as high as wide,
// as in the authors' 20 × 10. If there is none, it returns d.
func defaultHeight(d int) int {
	for a := 1; a < d; a++ {
		if d%a == 0 && a*a >= 2*d {
			return a
		}
	}
	return max(d, 1)
}

var convE = &Spec{
	Name: "conve", Title: "ConvE", Score: "relu(D relu(filters ∗ [h; r]))·t + β_t", MaxDim: maxConvDim,
	Hyper: []*HyperParameter{imageHeight, channels, inputNorm},
	Tensors: func(c Config) []Parameter {
		s, d := convSizesOf(c), c.Dim
		filters, dense := pyTorchUniform(s.filterHeight*s.filterWidth), pyTorchUniform(s.inputs())
		list := []Parameter{
			{Name: "entity", Axis: PerEntity, Row: []int{d + 1}, Initial: withoutBias(xavierNormal(c.Entities, d))},
			{Name: "relation", Axis: PerRelation, Row: []int{d}, Initial: xavierNormal(c.Relations, d)},
		}
		if inputNorm.Of(c) != 0 {
			list = append(list, normParameters("norm0", 1)...)
		}
		list = append(list, Parameter{
			Name: "filters", Axis: Global, Row: []int{s.channels, s.filterHeight, s.filterWidth}, Initial: filters,
		}, Parameter{Name: "filters.bias", Axis: Global, Row: []int{s.channels}, Initial: filters})
		list = append(list, normParameters("norm1", s.channels)...)
		list = append(list, Parameter{
			Name: "dense", Axis: Global, Row: []int{d, s.inputs()}, Initial: dense,
		}, Parameter{Name: "dense.bias", Axis: Global, Row: []int{d}, Initial: dense})
		return append(list, normParameters("norm2", d)...)
	},
	Build:           func(t Tables) Model { return newConvE(t) },
	TrainReciprocal: true,
	Recipe: commonRecipe(map[string]string{
		"dim": "128", "reciprocal": "true", "gamma": "0", "input_dropout": "0.2", "feature_map_dropout": "0.2",
		"hidden_dropout": "0.3", "ema": "0",
	}),
}

// pyTorchUniform returns the distribution of new layers in PyTorch: uniform in [−b, b), where b is
// the inverse square root of the number of inputs.
func pyTorchUniform(inputs int) initial.Distribution {
	return initial.Uniform(1 / math.Sqrt(float64(inputs)))
}

// withoutBias returns the distribution of rows whose first entry is 0 and whose other entries have
// the distribution d.
func withoutBias(d initial.Distribution) initial.Distribution {
	return func(ctx context.Context, s *initial.Source, row []int, values []float32) error {
		err := d(ctx, s, row, values)
		for i := 0; i < len(values); i += row[0] {
			values[i] = 0
		}
		return err
	}
}

// convSizes holds the sizes of a ConvE. The image of a query is the image of the anchor above the
// image of the relation.
type convSizes struct {
	height, width             int // extents of the image of a query
	filterHeight, filterWidth int
	channels                  int
}

func convSizesOf(c Config) convSizes {
	a := int(imageHeight.Of(c))
	s := convSizes{height: 2 * a, width: c.Dim / a, channels: int(channels.Of(c))}
	s.filterHeight, s.filterWidth = min(filterSize, s.height), min(filterSize, s.width)
	return s
}

// mapHeight and mapWidth return the extents of a feature map.
func (s convSizes) mapHeight() int { return s.height - s.filterHeight + 1 }
func (s convSizes) mapWidth() int  { return s.width - s.filterWidth + 1 }

// area returns the number of entries of a feature map.
func (s convSizes) area() int { return s.mapHeight() * s.mapWidth() }

// inputs returns the number of inputs of the fully connected layer D.
func (s convSizes) inputs() int { return s.channels * s.area() }

// convTensors holds the tensors of the layers. norm0 is nil if the image is not normalised.
type convTensors struct {
	norm0, norm1, norm2                     [][]float32
	filters, filterBias, dense, denseBiases []float32
}

type convEModel struct {
	Tables
	convSizes
	layers convTensors
}

func newConvE(t Tables) *convEModel {
	m := &convEModel{Tables: t, convSizes: convSizesOf(t.config)}
	rest := t.tensors[relationTable+1:]
	take := func(n int) (list [][]float32) {
		list, rest = rest[:n], rest[n:]
		return list
	}
	if inputNorm.Of(t.config) != 0 {
		m.layers.norm0 = take(normTensors)
	}
	convolution := take(2)
	m.layers.norm1 = take(normTensors)
	dense := take(2)
	m.layers.norm2 = take(normTensors)
	m.layers.filters, m.layers.filterBias = convolution[0], convolution[1]
	m.layers.dense, m.layers.denseBiases = dense[0], dense[1]
	return m
}

func (m *convEModel) Tower(side kg.Side) Tower {
	t := Tower{Compare: Dot, Psi: m.config.Dim + 1, Phi: m.config.Dim + 1}
	if side == kg.Head {
		t.Features = OnRelation
	}
	return t
}

func (m *convEModel) NewWorker(*kernel.Backend) Worker {
	d := m.config.Dim
	w := &convEWorker{
		convEModel: m, norm0: noNorm(1), norm1: newAffine(m.layers.norm1), norm2: newAffine(m.layers.norm2),
		dense: make([]float32, len(m.layers.dense)), image: make([]float64, m.height*m.width),
		maps: make([]float64, m.inputs()), out: make([]float64, d+1), last: make([]float64, d+1),
	}
	if m.layers.norm0 != nil {
		w.norm0 = newAffine(m.layers.norm0)
	}
	n := m.inputs()
	for i := range d {
		for k, v := range m.layers.dense[i*n:][:n] {
			w.dense[k*d+i] = v
		}
	}
	return OneByOne(w)
}

// convEWorker is the worker of convEModel.
type convEWorker struct {
	*convEModel
	norm0, norm1, norm2 affine
	dense               []float32 // transposed: a row holds the weights of an input

	image, maps, out []float64
	last             []float64 // [1, x] of the remembered query (see of)
	of               lastQuery
}

// output writes [1, x] of head h and relation r to out.
func (w *convEWorker) output(out []float64, h, r int32) {
	head, relation := w.Row(entityTable, h)[1:], w.Row(relationTable, r)
	for i, v := range head {
		w.image[i] = w.norm0.of(0, float64(v))
		w.image[len(head)+i] = w.norm0.of(0, float64(relation[i]))
	}
	at, size := 0, w.filterHeight*w.filterWidth
	for c := range w.channels {
		filter, bias := w.layers.filters[c*size:][:size], float64(w.layers.filterBias[c])
		for y := range w.mapHeight() {
			for x := range w.mapWidth() {
				w.maps[at] = relu(w.norm1.of(c, w.pixel(filter, bias, y, x)))
				at++
			}
		}
	}
	out[0] = 1
	x := out[1:]
	for i, v := range w.layers.denseBiases {
		x[i] = float64(v)
	}
	chain64(x, w.maps, w.dense)
	for i, v := range x {
		x[i] = relu(w.norm2.of(i, v))
	}
}

// pixel returns the entry (y, x) of the feature map of a filter.
func (w *convEWorker) pixel(filter []float32, bias float64, y, x int) float64 {
	sum := bias
	for i := range w.filterHeight {
		row := w.image[(y+i)*w.width+x:][:w.filterWidth]
		for j, v := range filter[i*w.filterWidth:][:w.filterWidth] {
			sum += float64(float64(v) * row[j])
		}
	}
	return sum
}

// relu returns max(x, 0). It returns 0 for −0.
func relu(x float64) float64 {
	if x > 0 {
		return x
	}
	return 0
}

// Feature writes the entity's row for tails and [1, x] for heads. The size is the norm of φ before
// φ is rounded.
func (w *convEWorker) Feature(side kg.Side, relation, e int32, phi []float32) (size float64) {
	if side == kg.Tail {
		row := w.Row(entityTable, e)
		copy(phi, row)
		return fmath.Norm(row)
	}
	w.output(w.out, e, relation)
	narrow(phi, w.out)
	return fmath.Norm(w.out)
}

func (w *convEWorker) Query(q kg.Query, psi []float32) Slack {
	// See docs/models/conve.md, "Slack".
	rounding := gamma(len(psi) + 1)
	if q.Side == kg.Head {
		row := w.Row(entityTable, q.Anchor)
		copy(psi, row)
		return Slack{networkFloor, rounding * fmath.Norm(row), 0}
	}
	w.output(w.out, q.Anchor, q.Relation)
	narrow(psi, w.out)
	return Slack{networkFloor, rounding * fmath.Norm(w.out), 0}
}

func (w *convEWorker) Reference(q kg.Query, e int32) float64 {
	h, t := q.Anchor, e
	if q.Side == kg.Head {
		h, t = e, q.Anchor
	}
	if !w.of.keep(q) || q.Side == kg.Head {
		w.output(w.last, h, q.Relation)
	}
	var sum float64
	for i, v := range w.Row(entityTable, t) {
		sum += float64(w.last[i] * float64(v))
	}
	return sum
}

func (m *convEModel) Training() Training {
	return Training{
		Width: m.config.Dim + 1, EntityRows: true, Penalties: []Penalty{NoPenalty},
		Layers: []Layer{InputLayer, FeatureMaps, HiddenLayer}, PerQuery: m.perQuery(),
	}
}

// perQuery returns the number of entries that convENetwork allocates for a query.
func (m *convEModel) perQuery() int {
	d, filter := m.config.Dim, m.filterHeight*m.filterWidth
	layers := linalg.LineStride(2*d) + linalg.LineStride(m.inputs()) + linalg.LineStride(d)
	return 3*layers + linalg.LineStride(m.channels*(filter+1)) + batchNormSums(m.channels) + batchNormSums(d)
}

func (m *convEModel) NewTrainingWorker(b *linalg.Backend, p Penalty) TrainingWorker {
	return &networkTraining{newTableTraining(&m.Tables, b, p)}
}

func (m *convEModel) NewNetworkWorker(b *linalg.Backend, threads int, d NetworkDropout) NetworkWorker {
	w := &convENetwork{
		convEModel: m, backend: b, threads: threads, drop: d, product: b.NewProduct(threads),
		norm1: newBatchNorm(m.layers.norm1, m.area(), threads), norm2: newBatchNorm(m.layers.norm2, 1, threads),
		scratch: make([]convScratch, threads),
	}
	if m.layers.norm0 != nil {
		w.norm0 = newBatchNorm(m.layers.norm0, m.height*m.width, threads)
	}
	for i := range w.scratch {
		w.scratch[i] = convScratch{wide: make([]float32, m.wide()), keep: make([]float32, m.channels)}
	}
	return w
}

// convENetwork is the NetworkWorker of convEModel. Its matrices have a row for each query.
type convENetwork struct {
	*convEModel
	backend             *linalg.Backend
	threads             int
	drop                NetworkDropout
	product             *linalg.Product
	norm0, norm1, norm2 *batchNorm // norm0 is nil without normalisation of the image

	image, input linalg.Matrix // before and after N₀ and dropout
	maps, hidden linalg.Matrix // before and after N₁, relu and dropout
	dense, out   linalg.Matrix // before and after N₂ and relu; dense is the output of D after dropout
	// These hold the gradients of input, hidden and dense. The gradients of image, maps and the
	// output of D overwrite them later.
	dInput, dHidden, dDense linalg.Matrix
	// dFilters holds each query's share of the gradients of the filters and then of their biases.
	dFilters linalg.Matrix
	scratch  []convScratch
}

// convScratch is the scratch memory of a goroutine.
type convScratch struct {
	wide []float32 // a feature map as wide as the image
	keep []float32 // the factors by which dropout multiplies the feature maps
}

// wide returns the number of entries of a feature map that is as wide as the image. A convolution
// also computes the entries beyond the width of the map, which makes it a sum of vectors: each
// weight times the image, shifted by the position of the weight. The last row has no such entries.
func (s convSizes) wide() int { return (s.mapHeight()-1)*s.width + s.mapWidth() }

// taps calls the function visit for each weight of a filter, with the index of the pixel that the
// weight multiplies in the first entry of the feature map.
func (s convSizes) taps(visit func(weight, pixel int)) {
	for i := range s.filterHeight {
		for j := range s.filterWidth {
			visit(i*s.filterWidth+j, i*s.width+j)
		}
	}
}

// filterMatrix and denseMatrix return weights as matrices with a row for each output.
func (m *convEModel) filterMatrix(values []float32) linalg.Matrix { return rowsOf(values, m.channels) }
func (m *convEModel) denseMatrix(values []float32) linalg.Matrix  { return rowsOf(values, m.config.Dim) }

func rowsOf(values []float32, rows int) linalg.Matrix {
	n := len(values) / rows
	return linalg.Matrix{Data: values, Rows: rows, Cols: n, Stride: n}
}

func (w *convENetwork) Forward(ctx context.Context, queries []kg.Query, anchors, psi linalg.Matrix) error {
	n, d := len(queries), w.config.Dim
	for _, m := range []*linalg.Matrix{&w.image, &w.input, &w.dInput} {
		m.Resize(n, 2*d)
	}
	for _, m := range []*linalg.Matrix{&w.maps, &w.hidden, &w.dHidden} {
		m.Resize(n, w.inputs())
	}
	for _, m := range []*linalg.Matrix{&w.dense, &w.out, &w.dDense} {
		m.Resize(n, d)
	}
	for i, q := range queries {
		copy(w.image.Row(i), anchors.Row(i)[1:])
		copy(w.image.Row(i)[d:], w.Row(relationTable, q.Relation))
	}
	if err := w.norm0.normalise(ctx, w.input, w.image); err != nil {
		return err
	}
	err := kernel.Parallel(ctx, w.threads, n, func(worker, i int) {
		w.drop.Drop(InputLayer, i, w.input.Row(i))
		w.convolve(&w.scratch[worker], i)
	})
	if err != nil {
		return err
	}
	if err := w.norm1.forward(ctx, w.hidden, w.maps); err != nil {
		return err
	}
	err = kernel.Parallel(ctx, w.threads, n, func(worker, i int) {
		hidden := w.hidden.Row(i)
		for c, factor := range w.factors(&w.scratch[worker], i) {
			row := w.norm1.channel(hidden, c)
			for k, v := range row {
				row[k] = factor * max(v, 0)
			}
		}
	})
	if err != nil {
		return err
	}
	if err := w.product.NT(ctx, w.dense, w.hidden, w.denseMatrix(w.layers.dense), false); err != nil {
		return err
	}
	for i := range n {
		w.backend.Axpy(w.dense.Row(i), 1, w.layers.denseBiases)
		w.drop.Drop(HiddenLayer, i, w.dense.Row(i))
	}
	if err := w.norm2.forward(ctx, w.out, w.dense); err != nil {
		return err
	}
	for i := range n {
		row := psi.Row(i)
		row[0] = 1
		for k, v := range w.out.Row(i) {
			v = max(v, 0)
			w.out.Row(i)[k], row[1+k] = v, v
		}
	}
	return nil
}

// factors returns the factors by which dropout multiplies the feature maps of a query.
func (w *convENetwork) factors(s *convScratch, query int) []float32 {
	for c := range s.keep {
		s.keep[c] = 1
	}
	w.drop.Drop(FeatureMaps, query, s.keep)
	return s.keep
}

// convolve computes the feature maps of a query.
func (w *convENetwork) convolve(s *convScratch, query int) {
	image, maps, filters := w.input.Row(query), w.maps.Row(query), w.filterMatrix(w.layers.filters)
	for c := range w.channels {
		clear(s.wide)
		filter := filters.Row(c)
		w.taps(func(weight, pixel int) { w.backend.Axpy(s.wide, filter[weight], image[pixel:][:len(s.wide)]) })
		to, bias := w.norm1.channel(maps, c), w.layers.filterBias[c]
		for y := range w.mapHeight() {
			row := to[y*w.mapWidth():][:w.mapWidth()]
			for x, v := range s.wide[y*w.width:][:len(row)] {
				row[x] = v + bias
			}
		}
	}
}

func (w *convENetwork) Backward(
	ctx context.Context, dAnchors, dRelations linalg.Matrix, dGlobals []float32, dPsi linalg.Matrix,
) error {
	n, d := dPsi.Rows, w.config.Dim
	take := func(n int) (part []float32) {
		part, dGlobals = dGlobals[:n], dGlobals[n:]
		return part
	}
	var dScale0, dShift0 []float32
	if w.norm0 != nil {
		dScale0, dShift0 = take(1), take(1)
	}
	dFilters, dFilterBias := take(len(w.layers.filters)), take(w.channels)
	dScale1, dShift1 := take(w.channels), take(w.channels)
	dDense, dDenseBiases := take(len(w.layers.dense)), take(d)
	dScale2, dShift2 := take(d), take(d)

	for i := range n {
		from, to, out := dPsi.Row(i)[1:], w.dDense.Row(i), w.out.Row(i)
		for k, g := range from {
			if to[k] = g; out[k] <= 0 {
				to[k] = 0
			}
		}
	}
	if err := w.norm2.backward(ctx, dScale2, dShift2, w.dDense, w.dDense, w.dense); err != nil {
		return err
	}
	for i := range n {
		w.drop.Drop(HiddenLayer, i, w.dDense.Row(i))
	}
	sumRows(dDenseBiases, w.dDense)
	if err := w.product.TN(ctx, w.denseMatrix(dDense), w.dDense, w.hidden, false); err != nil {
		return err
	}
	if err := w.product.NN(ctx, w.dHidden, w.dDense, w.denseMatrix(w.layers.dense), false); err != nil {
		return err
	}
	err := kernel.Parallel(ctx, w.threads, n, func(worker, i int) {
		for c, factor := range w.factors(&w.scratch[worker], i) {
			hidden, gradient := w.norm1.channel(w.hidden.Row(i), c), w.norm1.channel(w.dHidden.Row(i), c)
			for k, v := range hidden {
				if v > 0 {
					gradient[k] *= factor
				} else {
					gradient[k] = 0
				}
			}
		}
	})
	if err != nil {
		return err
	}
	if err := w.norm1.backward(ctx, dScale1, dShift1, w.dHidden, w.dHidden, w.maps); err != nil {
		return err
	}
	w.dFilters.Resize(n, len(dFilters)+len(dFilterBias))
	err = kernel.Parallel(ctx, w.threads, n, func(worker, i int) {
		w.convolutionGradient(&w.scratch[worker], i)
		w.drop.Drop(InputLayer, i, w.dInput.Row(i))
	})
	if err != nil {
		return err
	}
	sumRows(dFilters, w.dFilters.Columns(0, len(dFilters)))
	sumRows(dFilterBias, w.dFilters.Columns(len(dFilters), w.dFilters.Cols))
	if w.norm0 != nil {
		if err := w.norm0.backward(ctx, dScale0, dShift0, w.dInput, w.dInput, w.image); err != nil {
			return err
		}
	}
	for i := range n {
		row := w.dInput.Row(i)
		dAnchors.Row(i)[0] = 0 // the bias
		copy(dAnchors.Row(i)[1:], row[:d])
		copy(dRelations.Row(i), row[d:])
	}
	return nil
}

// convolutionGradient computes the gradients of a query's input, and its share of the gradients of
// the filters and their biases, from the gradients of its feature maps.
func (w *convENetwork) convolutionGradient(s *convScratch, query int) {
	image, dImage, dMaps := w.input.Row(query), w.dInput.Row(query), w.dHidden.Row(query)
	filters, dFilters := w.filterMatrix(w.layers.filters), w.dFilters.Row(query)
	size := filters.Cols
	clear(dImage)
	for c := range w.channels {
		clear(s.wide)
		from := w.norm1.channel(dMaps, c)
		for y := range w.mapHeight() {
			copy(s.wide[y*w.width:], from[y*w.mapWidth():][:w.mapWidth()])
		}
		w.taps(func(weight, pixel int) {
			dFilters[c*size+weight] = float32(w.backend.Dot(s.wide, image[pixel:][:len(s.wide)]))
			w.backend.Axpy(dImage[pixel:][:len(s.wide)], filters.Row(c)[weight], s.wide)
		})
		dFilters[len(w.layers.filters)+c] = float32(w.backend.Sum(s.wide))
	}
}

// sumRows writes the sum of the rows of m to sum.
func sumRows(sum []float32, m linalg.Matrix) {
	for k := range sum {
		var total float64
		for i := range m.Rows {
			total += float64(m.Data[i*m.Stride+k])
		}
		sum[k] = float32(total)
	}
}

func (w *convENetwork) Settle() {
	if w.norm0 != nil {
		w.norm0.settle()
	}
	w.norm1.settle()
	w.norm2.settle()
}
