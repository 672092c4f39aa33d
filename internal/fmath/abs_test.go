package fmath

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAbs32(t *testing.T) {
	for _, bits := range []uint32{0, 1, 0x3f800000, 0x7f7fffff, 0x7f800000, 0x7fc00001} { // the last one is NaN
		for _, sign := range []uint32{0, 1 << 31} {
			assert.Equal(t, bits, math.Float32bits(Abs32(math.Float32frombits(bits|sign))))
		}
	}
}
