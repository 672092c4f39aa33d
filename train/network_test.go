package train

import (
	"cmp"
	"math"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// networks holds, for each network, a function that computes its scores in training from their
// definitions, with reciprocal relations. Batch normalisation uses the mean and the variance of the
// given queries.
var networks = map[string]func(m model.Model, queries []kg.Query) func(q kg.Query, e int32) float64{
	"tucker": trainedTuckER, "conve": trainedConvE,
}

// network holds the tensors of a network as float64 numbers.
type network map[string][]float64

func newNetwork(m model.Model) network {
	n := network{}
	for i, p := range parametersOf(m) {
		for _, v := range m.Tensors()[i] {
			n[p.Name] = append(n[p.Name], float64(v))
		}
	}
	return n
}

// relation returns the row of a query's relation: with reciprocal relations, row 2r or 2r + 1.
func (n network) relation(q kg.Query, width int) []float64 {
	r := 2 * int(q.Relation)
	if q.Side == kg.Head {
		r++
	}
	return n["relation"][r*width:][:width]
}

// normalise applies a batch normalisation to the channels of all queries, x[query][channel][entry].
func (n network) normalise(name string, x [][][]float64) {
	for c := range x[0] {
		var entries, mean, variance float64
		for _, row := range x {
			for _, v := range row[c] {
				mean += v
				entries++
			}
		}
		mean /= entries
		for _, row := range x {
			for _, v := range row[c] {
				variance += (v - mean) * (v - mean) / entries
			}
		}
		for _, row := range x {
			for k, v := range row[c] {
				row[c][k] = n[name+".scale"][c]*(v-mean)/math.Sqrt(variance+1e-5) + n[name+".shift"][c]
			}
		}
	}
}

// single turns a vector into channels of one entry each.
func single(x []float64) (channels [][]float64) {
	for _, v := range x {
		channels = append(channels, []float64{v})
	}
	return channels
}

func trainedTuckER(m model.Model, queries []kg.Query) func(q kg.Query, e int32) float64 {
	d, n := m.Config().Dim, newNetwork(m)
	width := cmp.Or(int(m.Config().Hyper[model.RelationDim]), d)
	var x, y [][][]float64
	for _, q := range queries {
		x = append(x, single(n["entity"][int(q.Anchor)*d:][:d]))
	}
	n.normalise("norm0", x)
	for i, q := range queries {
		out, r := make([]float64, d), n.relation(q, width)
		for j := range width {
			for a := range d {
				for k := range d {
					out[k] += x[i][a][0] * r[j] * n["core"][(j*d+a)*d+k]
				}
			}
		}
		y = append(y, single(out))
	}
	n.normalise("norm1", y)
	psi := map[kg.Query][][]float64{}
	for i, q := range queries {
		psi[q] = y[i]
	}
	return func(q kg.Query, e int32) (score float64) {
		for k, v := range n["entity"][int(e)*d:][:d] {
			score += psi[q][k][0] * v
		}
		return score
	}
}

func trainedConvE(m model.Model, queries []kg.Query) func(q kg.Query, e int32) float64 {
	c, n := m.Config(), newNetwork(m)
	d, rows, filters := c.Dim, 2*int(c.Hyper[model.ImageHeight]), len(n["filters.bias"])
	cols := 2 * d / rows
	filterRows, filterCols := min(3, rows), min(3, cols)
	var images, maps, outs [][][]float64
	for _, q := range queries {
		var image []float64
		image = append(image, n["entity"][int(q.Anchor)*(d+1)+1:][:d]...)
		images = append(images, [][]float64{append(image, n.relation(q, d)...)})
	}
	n.normalise("norm0", images)
	relu := func(x [][][]float64) {
		for _, query := range x {
			for _, channel := range query {
				for k, v := range channel {
					channel[k] = max(0, v)
				}
			}
		}
	}
	for _, image := range images {
		var all [][]float64
		for f := range filters {
			var one []float64
			for y := range rows - filterRows + 1 {
				for x := range cols - filterCols + 1 {
					sum := n["filters.bias"][f]
					for i := range filterRows {
						for j := range filterCols {
							sum += n["filters"][(f*filterRows+i)*filterCols+j] * image[0][(y+i)*cols+x+j]
						}
					}
					one = append(one, sum)
				}
			}
			all = append(all, one)
		}
		maps = append(maps, all)
	}
	n.normalise("norm1", maps)
	relu(maps)
	for _, channels := range maps {
		var flat []float64
		for _, channel := range channels {
			flat = append(flat, channel...)
		}
		out := make([]float64, d)
		for i := range out {
			out[i] = n["dense.bias"][i]
			for k, v := range flat {
				out[i] += n["dense"][i*len(flat)+k] * v
			}
		}
		outs = append(outs, single(out))
	}
	n.normalise("norm2", outs)
	relu(outs)
	psi := map[kg.Query][][]float64{}
	for i, q := range queries {
		psi[q] = outs[i]
	}
	return func(q kg.Query, e int32) float64 {
		row := n["entity"][int(e)*(d+1):][:d+1]
		score := row[0]
		for k, v := range row[1:] {
			score += psi[q][k][0] * v
		}
		return score
	}
}
