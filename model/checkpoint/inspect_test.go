package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInspect(t *testing.T) {
	f := small()
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	f.values["entity"] = []float32{3, 4, 0, nan, -10, inf, 1, 2, 2}
	f.values["relation.cross"] = []float32{nan, 0, 0, 0, -inf, nan, 0, 0}
	f.names = append(f.names, "scalar", "empty")
	f.shapes["scalar"], f.values["scalar"] = []int{}, []float32{-2}
	f.shapes["empty"] = []int{4, 0}
	dir := f.write(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "entities.tsv")), "the vocabularies are not needed")

	got, err := Inspect(t.Context(), dir)
	require.NoError(t, err)
	file := f.parameters(t)
	assert.Equal(t, filepath.Join(dir, "model.safetensors"), got.Path)
	assert.EqualValues(t, len(file), got.Bytes)
	assert.Equal(t, fmt.Sprintf("%x", sha256.Sum256(file)), got.SHA256)
	assert.Equal(t, f.metadata, got.Metadata)

	by := map[string]TensorStatistics{}
	for _, tensor := range got.Tensors {
		by[tensor.Name] = tensor
	}
	require.Len(t, by, 6)
	assert.Equal(t, TensorStatistics{"entity", "F32", []int{3, 3}, &ValueStatistics{
		NaN: 1, Inf: 1, Min: -10, Max: 4, RMS: math.Sqrt((9 + 16 + 100 + 1 + 4 + 4) / 7.),
		RowNorms: NormQuantiles{3, 3, 5, 5, 5}, // norms of the first and the last row
	}}, by["entity"])
	assert.Equal(t, ValueStatistics{NaN: 2, Inf: 1}, *by["relation.cross"].Values)
	assert.Equal(t, ValueStatistics{Min: -2, Max: -2, RMS: 2, RowNorms: NormQuantiles{2, 2, 2, 2, 2}},
		*by["scalar"].Values)
	assert.Equal(t, ValueStatistics{}, *by["empty"].Values)

	_, err = json.Marshal(got)
	assert.NoError(t, err, "the result itself contains no NaN or infinity")
}

func TestInspectOtherTypes(t *testing.T) {
	dir := t.TempDir()
	header := `{"half":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}`
	file := append([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}, header...)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), append(file, 0, 0, 0, 0), 0o644))
	got, err := Inspect(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, []TensorStatistics{{Name: "half", DType: "F16", Shape: []int{2}}}, got.Tensors)
	assert.Empty(t, got.Metadata)
}

// TestInspectAgainstBruteForce compares the statistics of a tensor that Inspect divides into parts
// with the results of plain loops, and the results of one thread with the results of many.
func TestInspectAgainstBruteForce(t *testing.T) {
	const rows, width = 3001, 300
	rng := rand.New(rand.NewPCG(1, 2))
	f := small()
	f.names = []string{"entity"}
	f.shapes["entity"] = []int{rows, width}
	values := make([]float32, rows*width)
	for i := range values {
		values[i] = float32(rng.NormFloat64())
	}
	f.values["entity"] = values
	dir := f.write(t)
	got, err := Inspect(t.Context(), dir)
	require.NoError(t, err)

	var sum float64
	norms := make([]float64, rows)
	for i := range rows {
		var square float64
		for _, v := range values[i*width : (i+1)*width] {
			square += float64(v) * float64(v)
		}
		norms[i] = math.Sqrt(square)
		sum += square
	}
	slices.Sort(norms)
	s := got.Tensors[0].Values
	assert.Zero(t, s.NaN+s.Inf)
	assert.EqualValues(t, slices.Min(values), s.Min)
	assert.EqualValues(t, slices.Max(values), s.Max)
	assert.InDelta(t, math.Sqrt(sum/(rows*width)), s.RMS, 1e-12)
	assert.InDeltaSlice(t, []float64{norms[0], norms[750], norms[1500], norms[2250], norms[3000]},
		[]float64{s.RowNorms.Min, s.RowNorms.Q25, s.RowNorms.Median, s.RowNorms.Q75, s.RowNorms.Max}, 1e-12)

	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	again, err := Inspect(t.Context(), dir)
	require.NoError(t, err)
	want, err := json.Marshal(got)
	require.NoError(t, err)
	have, err := json.Marshal(again)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, have), "the same for any number of threads")
}
