package linalg

import "fmt"

// NewBFloat16Product is NewProduct for products in bfloat16. They round every entry of the factors
// to bfloat16, with 8 significant bits and the range of float32, and add the products in float32.
// Some processors with AVX-512 BF16, such as AMD Zen 4, multiply bfloat16 values at twice the rate of
// float32 values.
//
// Without add, the error of an entry with k terms is at most (2⁻⁷ + 2⁻¹⁴ + k·2⁻³¹) Σ|x·y|, unless
// values, products or sums are subnormal; these become 0. It is mostly much smaller, because the
// errors of the terms have different signs. The order of the additions, which
// asm.Gemm8x48AVX512BF16 documents, does not depend on threads or blocking. A value that is infinite
// or has a magnitude of at least (2 − 2⁻⁸)·2¹²⁷ becomes infinite. The backend must have
// kernel.FeatureAVX512BF16.
func (b *Backend) NewBFloat16Product(threads int) *Product {
	if b.bfloat16.microkernels == nil {
		panic(fmt.Sprintf("linalg: NewBFloat16Product: backend %v has no AVX-512 BF16", b.Tier))
	}
	return newProduct(&b.bfloat16, threads)
}

// NewTileProduct is NewBFloat16Product with AMX, whose tiles multiply bfloat16 values at nominally 16
// times the rate of float32 values. The values are rounded in the same way, but the products are added
// in another order, which asm.Gemm32x32AMXBF16 documents. It does not depend on threads or blocking
// either.
//
// Without add, the error of an entry with k terms is at most (2⁻⁷ + 2⁻¹⁴ + k·2⁻²⁸) Σ|x·y|, with the same
// exceptions as for NewBFloat16Product. The backend must have kernel.FeatureAMXBF16 and, for the
// rounding, kernel.FeatureAVX512BF16.
func (b *Backend) NewTileProduct(threads int) *Product {
	if b.tiles.microkernels == nil {
		panic(fmt.Sprintf("linalg: NewTileProduct: backend %v has no AMX for bfloat16, or no AVX-512 BF16", b.Tier))
	}
	return newProduct(&b.tiles, threads)
}
