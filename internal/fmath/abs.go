package fmath

import "math"

// Abs32 returns |x|. It even clears the sign of NaN, as the assembly does.
func Abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }
