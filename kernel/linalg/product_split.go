package linalg

import "fmt"

// NewSplitProduct is NewProduct for products in which every float32 number is the sum of two bfloat16,
// which have 8 bits each and float32's range, without the products of two low parts: with k terms an entry
// is within (2⁻¹⁴ + k·2⁻²⁷) Σ|x·y|, mostly much nearer, where TF32 has 2⁻¹⁰ (docs/numerics.md, section 9). The matrix
// unit computes the three products that are left in a fraction of the time of one in float32. The order
// of additions, that of asm.GemmSplit32x32AMXBF16, depends on neither threads nor blocking. Factors from
// (2 − 2⁻⁸)·2¹²⁷ on and infinite ones make NaN, and those below 2⁻¹¹⁷ lose bits.
func (b *Backend) NewSplitProduct(threads int) *Product {
	if b.split.tiles == nil {
		panic(fmt.Sprintf("linalg: NewSplitProduct: not on %v here", b.Tier))
	}
	return newProduct(&b.split, threads)
}
