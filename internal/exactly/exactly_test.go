package exactly

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

// recorder is a testing.TB that records whether it failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Logf(string, ...any)   {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestRatio(t *testing.T) {
	check := func(least float64, pairs ...[2]float64) (failed bool) {
		var r Ratio
		for _, p := range pairs {
			r.See(Of(p[0]), p[1])
		}
		to := &recorder{TB: t}
		r.Check(to, least)
		return to.failed
	}
	assert.False(t, check(0.9, [2]float64{0, 0}, [2]float64{-0.95, 1}, [2]float64{7, math.Inf(1)}))
	assert.False(t, check(1, [2]float64{0x1p-300, 0x1p-300}))
	assert.True(t, check(0.9, [2]float64{0.5, 1}), "not near the bound")
	assert.True(t, check(0, [2]float64{1, 0}), "an error although the bound is 0")
	assert.True(t, check(0, [2]float64{1, math.NaN()}))

	var r Ratio
	r.See(Add(Of(1), Of(0x1p-200)), 1)
	to := &recorder{TB: t}
	r.Check(to, 0)
	assert.True(t, to.failed, "above the bound by less than float64 can tell")
}

func TestArithmetic(t *testing.T) {
	x := []float32{1, 0x1p-120, -1}
	y := []float64{0x1p100, 0x1p-200, 0x1p100}
	got, _ := Dot(x, y).Float64()
	assert.Equal(t, 0x1p-320, got)
	five, _ := Norm(All([]float32{3, 4})).Float64()
	assert.Equal(t, 5.0, five)
	third := Quo(Of(1), Of(3))
	one, _ := Add(Mul(Of(2), third), Sub(Of(1), Mul(third, Of(2)))).Float64()
	assert.Equal(t, 1.0, one)
}
