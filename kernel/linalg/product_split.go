package linalg

import "fmt"

// NewSplitProduct is NewProduct for split products. They split every float32 value into a sum of
// two bfloat16 values, each with 8 significant bits and the range of float32. They omit the
// products of two low parts. AMX computes the other three products in a fraction of the time of one
// float32 product.
//
// The error of an entry with k terms is at most (2⁻¹⁴ + k·2⁻²⁷) Σ|x·y|, unless values are below
// 2⁻¹¹⁰ in magnitude, or products or sums are subnormal. It is mostly much smaller; TF32 has 2⁻¹⁰ in
// place of 2⁻¹⁴ (docs/decisions/0009-training-products-in-two-bfloat16.md). Subnormal parts, products
// and sums become 0, so a value loses up to 2⁻¹²⁶: at 2⁻¹¹⁶, that is 2⁻¹⁰ of the value.
// asm.GemmSplit32x32AMXBF16 documents the order of additions, which does not depend on threads or
// blocking. A value that is infinite or has a magnitude of at least (2 − 2⁻⁸)·2¹²⁷ results in NaN.
// The backend must have kernel.FeatureAMXBF16.
func (b *Backend) NewSplitProduct(threads int) *Product {
	if b.split.microkernels == nil {
		panic(fmt.Sprintf("linalg: NewSplitProduct: backend %v has no AMX for bfloat16", b.Tier))
	}
	return newProduct(&b.split, threads)
}
