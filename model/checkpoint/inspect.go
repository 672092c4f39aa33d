package checkpoint

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model/checkpoint/safetensors"
)

// Inspection describes the parameters of a checkpoint, valid or not.
type Inspection struct {
	// Format is the name of the format, like Checkpoint.Format.
	Format string `json:"format"`
	// Path is the inspected file, or the folder if there are several files. Bytes is the total size
	// of the files, and SHA256 is the hash of their contents in hex.
	Path     string            `json:"path"`
	Bytes    int64             `json:"bytes"`
	SHA256   string            `json:"sha256"`
	Metadata map[string]string `json:"metadata"`
	// Tensors follow the order of the file.
	Tensors []TensorStatistics `json:"tensors"`
}

// TensorStatistics describes a tensor and its values.
type TensorStatistics struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
	// Values describes the elements as float32. It is nil if the elements cannot be converted, or if some
	// are missing from a truncated file.
	Values *ValueStatistics `json:"values,omitempty"`
}

// ValueStatistics describes the values of a tensor.
type ValueStatistics struct {
	// NaN and Inf count NaN values and infinities of either sign.
	NaN int `json:"nan"`
	Inf int `json:"inf"`
	// Min, Max and RMS, the root mean square, describe the finite values. They are 0 if there are
	// none.
	Min float64 `json:"min"`
	Max float64 `json:"max"`
	RMS float64 `json:"rms"`
	// RowNorms describes the norms of the rows whose values are all finite. The first extent of the
	// shape is the number of rows.
	RowNorms NormQuantiles `json:"row_norms"`
}

// NormQuantiles holds quantiles of the Euclidean norms of rows. Each quantile is the norm of one
// row, or 0 if there are no rows.
type NormQuantiles struct {
	Min    float64 `json:"min"`
	Q25    float64 `json:"q25"`
	Median float64 `json:"median"`
	Q75    float64 `json:"q75"`
	Max    float64 `json:"max"`
}

// Inspect describes the readable parameters of the checkpoint that Open would open. The vocabularies
// and metadata may be missing or wrong, and values need not be finite. A file of format mquine/1 may also
// end too early, after its header. Inspect treats ctx as Open does.
func Inspect(ctx context.Context, dir string) (*Inspection, error) {
	return input.Await(ctx, func() (*Inspection, error) { return inspect(ctx, dir) })
}

func inspect(ctx context.Context, dir string) (*Inspection, error) {
	format, src, err := openSource(ctx, dir, "", safetensors.OpenTruncated)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	sum, err := src.sha256(ctx)
	if err != nil {
		return nil, err
	}
	result := &Inspection{
		Format: format.name, Path: src.path, SHA256: sum, Metadata: src.metadata, Tensors: []TensorStatistics{},
	}
	for _, f := range src.files {
		result.Bytes += int64(len(f.Bytes()))
	}
	if err := src.checkShared(result.Bytes); err != nil {
		return nil, err
	}
	for _, t := range src.tensors {
		s := TensorStatistics{Name: t.name, DType: t.dtype, Shape: t.shape}
		if t.values != nil {
			if s.Values, err = inspectTensor(ctx, t); err != nil {
				return nil, err
			}
		}
		result.Tensors = append(result.Tensors, s)
	}
	if err := src.verify(ctx); err != nil {
		return nil, err
	}
	return result, nil
}

// maxShared is the largest number of elements for each byte of the files that Inspect reads. Torch
// files whose models tie weights have several tensors with the same elements: 32 float32 tensors that
// share all elements reach the limit.
const maxShared = 8

// checkShared returns an error if the tensors have many more elements than fit into the files, whose
// size in bytes is given. A small file can name the same elements thousands of times.
func (s *source) checkShared(size int64) error {
	left := maxShared * size
	for _, t := range s.tensors {
		if t.values == nil {
			continue
		}
		n := int64(1)
		for _, extent := range t.shape {
			n *= int64(extent)
		}
		if left -= n; left < 0 {
			return fmt.Errorf("%s: its tensors share their elements so often that they have more than %d for each "+
				"byte of the file: clone the tensors and save them again", t.path, maxShared)
		}
	}
	return nil
}

func inspectTensor(ctx context.Context, t tensor) (_ *ValueStatistics, err error) {
	defer fault.Guard().Catch(&err)
	values := t.values()
	if len(values) == 0 {
		return &ValueStatistics{}, nil
	}
	norms := make([]float64, rows(t.shape))
	width := len(values) / len(norms)

	// The division into parts and the order of merging do not depend on the number of threads, so
	// the result is the same for any number.
	perPart := max(1, 1<<18/width)
	parts := make([]tally, (len(norms)+perPart-1)/perPart)
	err = kernel.Parallel(ctx, runtime.GOMAXPROCS(0), len(parts), func(_, i int) {
		first := i * perPart
		last := min(first+perPart, len(norms))
		parts[i] = count(values[first*width:last*width], norms[first:last])
	})
	if err != nil {
		return nil, err
	}
	all := parts[0]
	for _, p := range parts[1:] {
		all.merge(p)
	}
	s := &ValueStatistics{NaN: all.nan, Inf: all.inf}
	if n := len(values) - all.nan - all.inf; n > 0 {
		s.Min, s.Max, s.RMS = all.min, all.max, math.Sqrt(all.squares/float64(n))
	}
	norms = slices.DeleteFunc(norms, math.IsNaN)
	slices.Sort(norms)
	s.RowNorms = quantiles(norms)
	return s, nil
}

// tally summarises a part of a tensor. min, max and squares, the sum of the squares, describe the
// finite values.
type tally struct {
	nan, inf          int
	min, max, squares float64
}

// count tallies rows of equal width and stores their Euclidean norms in norms. The norm is NaN for
// a row with a value that is not finite.
func count(values []float32, norms []float64) tally {
	all := tally{min: math.Inf(1), max: math.Inf(-1)}
	width := len(values) / len(norms)
	for i := range norms {
		row := tally{min: math.Inf(1), max: math.Inf(-1)}
		for _, value := range values[i*width : (i+1)*width] {
			switch v := float64(value); {
			case v != v:
				row.nan++
			case math.IsInf(v, 0):
				row.inf++
			default:
				row.min, row.max = min(row.min, v), max(row.max, v)
				row.squares += v * v
			}
		}
		norms[i] = math.Sqrt(row.squares)
		if row.nan+row.inf > 0 {
			norms[i] = math.NaN()
		}
		all.merge(row)
	}
	return all
}

func (t *tally) merge(other tally) {
	t.nan += other.nan
	t.inf += other.inf
	t.min = min(t.min, other.min)
	t.max = max(t.max, other.max)
	t.squares += other.squares
}

func quantiles(sorted []float64) NormQuantiles {
	if len(sorted) == 0 {
		return NormQuantiles{}
	}
	at := func(q float64) float64 { return sorted[int(math.Round(q*float64(len(sorted)-1)))] }
	return NormQuantiles{Min: at(0), Q25: at(0.25), Median: at(0.5), Q75: at(0.75), Max: at(1)}
}
