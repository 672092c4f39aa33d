package linalg

import "fmt"

// NewSplitProduct is NewProduct for products that split every float32 number into the sum of two bfloat16 numbers, which
// have 8 bits each and float32's range, and leave out the products of two low parts. With k terms an entry is within
// (2⁻¹⁴ + k·2⁻²⁷) Σ|x·y|, mostly much closer, where TF32 has 2⁻¹⁰ (docs/numerics.md, "Reproducible bits"). AMX computes the other
// three products in a fraction of the time of one in float32. asm.GemmSplit32x32AMXBF16 documents the order of
// additions, which depends on neither threads nor blocking. Factors from (2 − 2⁻⁸)·2¹²⁷ on and infinite ones make NaN;
// factors below 2⁻¹¹⁷ lose bits. The backend has to have kernel.FeatureBF16.
func (b *Backend) NewSplitProduct(threads int) *Product {
	if b.split.tiles == nil {
		panic(fmt.Sprintf("linalg: NewSplitProduct: %v without AMX for bfloat16", b.Tier))
	}
	return newProduct(&b.split, threads)
}
