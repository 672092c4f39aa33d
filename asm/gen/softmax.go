package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file generates Maximum, Exp and Logistic for AVX512 and AVX2: the kernels of softmax and
// logistic losses over rows of scores. They fuse no operations, so all tiers agree bit for
// bit. kernel/linalg/generic_softmax.go has the same constants and operations, and explains them.

// softmaxes emits the kernels of both instruction sets.
func softmaxes(c *build.Context) {
	k := constants{c, map[uint32]operand.Mem{}}
	eachSet(c, func(c vectors) {
		c.maximum()
		c.exp(k)
		c.logistic(k)
	})
}

// constants holds vectors of 16 equal values in read-only memory.
type constants struct {
	c    *build.Context
	seen map[uint32]operand.Mem
}

func (k constants) bits(x uint32) operand.Mem {
	if m, ok := k.seen[x]; ok {
		return m
	}
	m := k.c.StaticGlobal(fmt.Sprintf("constant%08x", x))
	k.c.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 8 {
		k.c.AddDatum(8*i, operand.U64(uint64(x)<<32|uint64(x)))
	}
	k.seen[x] = m
	return m
}

func (k constants) number(x float32) operand.Mem { return k.bits(math.Float32bits(x)) }

const (
	roundShift      = 0x1.8p23
	log2e           = 0x1.715476p+0
	ln2High, ln2Low = 0x1.63p-1, -0x1.bd0106p-13
)

var (
	expTerms = []float32{
		1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1,
	}
	log1pTerms = []float32{1. / 15, 1. / 13, 1. / 11, 1. / 9, 1. / 7, 1. / 5, 1. / 3}
)

// polynomial returns the value at x of the polynomial with the given coefficients, highest first.
func (c vectors) polynomial(k constants, x reg.VecVirtual, terms []float32) reg.VecVirtual {
	p := c.load(k.number(terms[0]))
	holds(c.Context, "values of polynomials", p)
	for _, t := range terms[1:] {
		c.VMULPS(x, p, p)
		c.VADDPS(k.number(t), p, p)
	}
	return p
}

// exponential returns exp(x) = 2ⁿ·exp(v), where v = x − n·ln 2 and n = round(x/ln 2). most and
// least are the limits of x. Both must be in registers: x has to be the operand that may be in
// memory, because minimum and maximum return that operand for NaN.
func (c vectors) exponential(k constants, x, most, least reg.VecVirtual) reg.VecVirtual {
	c.Comment("exp(x) = 2^n·exp(v), where x is clamped, n = round(x·log2 e) and v = x − n·ln 2 in two parts")
	v := c.vec()
	holds(c.Context, "limits of the argument of exp", most, least)
	holds(c.Context, "v, the reduced argument of exp", v)
	c.VMINPS(x, most, v)
	c.VMAXPS(v, least, v)
	shifted := c.product(k.number(log2e), v)
	c.VADDPS(k.number(roundShift), shifted, shifted)
	n := c.vec()
	c.VSUBPS(k.number(roundShift), shifted, n)
	c.VSUBPS(c.product(k.number(ln2High), n), v, v)
	c.VMULPS(k.number(ln2Low), n, n)
	c.VSUBPS(n, v, v)
	c.Comment("exp(v) = 1 + (v + v²·polynomial(v))")
	p := c.polynomial(k, v, expTerms)
	c.VMULPS(c.product(v, v), p, p)
	c.VADDPS(v, p, p)
	c.VADDPS(k.number(1), p, p)
	c.Comment("Multiply by 2^n in two halves, since 2^n alone may be out of range")
	half := n
	c.VPSUBD(k.bits(math.Float32bits(roundShift)), shifted, shifted)
	c.VPSRAD(operand.Imm(1), shifted, half)
	c.VPSUBD(half, shifted, shifted)
	for _, exponent := range []reg.VecVirtual{half, shifted} {
		c.VPADDD(k.bits(127), exponent, exponent)
		c.VPSLLD(operand.Imm(23), exponent, exponent)
		c.VMULPS(exponent, p, p)
	}
	return p
}

func (c vectors) maximum() {
	c.begin("Maximum"+c.set, "func(x *float32, n int, lanes *[32]float32)",
		"sets lanes[i mod 32] to the maximum of itself and x[i], i < n. It ignores NaN."+requires32)
	x, n, lanes := c.param("x"), c.param("n"), c.param("lanes")
	var most []reg.VecVirtual
	for i := 0; i < sumLanes; i += c.lanes {
		most = append(most, c.load(at(lanes, i)))
	}
	holds(c.Context, "maxima of the 32 lanes", most...)
	c.loop("entries", n, sumLanes, func() {
		for v, m := range most {
			c.VMAXPS(m, c.load(at(x, v*c.lanes)), m)
		}
		c.ADDQ(operand.Imm(4*sumLanes), x)
	})
	c.store(most, lanes)
	c.end()
}

func (c vectors) exp(k constants) {
	c.begin("Exp"+c.set, "func(x *float32, n int, a, shift float32, lanes *[32]float32)",
		`replaces x with exp(a·x − shift) and adds up the results in 32 lanes, entry i in lane i mod 32. A sum is one
chain from 0 with i ascending. Every operation is rounded.`+requires32)
	x, n, lanes := c.param("x"), c.param("n"), c.param("lanes")
	a, shift := c.argument("a"), c.argument("shift")
	most, least := c.load(k.number(89)), c.load(k.number(-104))
	sums := c.sums()
	c.loop("entries", n, sumLanes, func() {
		for v, s := range sums {
			y := c.product(at(x, v*c.lanes), a)
			c.VSUBPS(shift, y, y)
			e := c.exponential(k, y, most, least)
			c.VMOVUPS(e, at(x, v*c.lanes))
			c.VADDPS(e, s, s)
		}
		c.ADDQ(operand.Imm(4*sumLanes), x)
	})
	c.store(sums, lanes)
	c.end()
}

func (c vectors) logistic(k constants) {
	c.begin("Logistic"+c.set, "func(x, w *float32, n int, shift, target float32, lanes *[32]float32)",
		`computes the logistic losses of scores and replaces the scores with the derivatives. With z = x + shift,

	lanes: Σ w·(log(1 + exp(z)) − target·z)
	x = w·(1/(1 + exp(−z)) − target)

The sums are in 32 lanes as in Exp. Every operation is rounded. In target·z, the lowest finite value replaces
z = −∞.`+requires32)
	x, w, n, lanes := c.param("x"), c.param("w"), c.param("n"), c.param("lanes")
	shift, target := c.argument("shift"), c.argument("target")
	least, most := c.load(k.number(-104)), c.load(k.number(89))
	sums := c.sums()
	c.loop("entries", n, sumLanes, func() {
		for v, s := range sums {
			z := c.load(at(x, v*c.lanes))
			c.VADDPS(shift, z, z)
			y := c.vec()
			c.or(k.bits(1<<31), z, y)
			e := c.exponential(k, y, most, least)
			c.Comment("The derivative w·(σ(z) − target), where σ(z) = (z < 0 ? e : 1)/(1 + e) and e = exp(−|z|)")
			u, d := c.vec(), c.vec()
			c.VADDPS(k.number(1), e, u)
			c.chooseBySign(z, e, k.number(1), d)
			c.VDIVPS(u, d, d)
			c.VSUBPS(target, d, d)
			weight := c.load(at(w, v*c.lanes))
			c.VMULPS(weight, d, d)
			c.VMOVUPS(d, at(x, v*c.lanes))
			c.Comment("The loss w·(max(z, 0) + log(1 + e) − target·z), where log(1 + e) = 2·artanh(e/(2 + e))")
			c.VADDPS(k.number(2), e, u)
			c.VDIVPS(u, e, e)
			q := c.product(e, e)
			p := c.polynomial(k, q, log1pTerms)
			c.VADDPS(e, e, e)
			c.VMULPS(q, p, p)
			c.VMULPS(e, p, p)
			c.VADDPS(e, p, p)
			positive := c.zero()
			c.VMAXPS(z, positive, positive)
			c.VADDPS(positive, p, p)
			bounded := c.load(k.number(-math.MaxFloat32)) // 0·∞ is NaN
			c.VMAXPS(z, bounded, bounded)
			c.VMULPS(target, bounded, bounded)
			c.VSUBPS(bounded, p, p)
			c.VMULPS(weight, p, p)
			c.VADDPS(p, s, s)
		}
		c.ADDQ(operand.Imm(4*sumLanes), x)
		c.ADDQ(operand.Imm(4*sumLanes), w)
	})
	c.store(sums, lanes)
	c.end()
}

func (c vectors) or(m operand.Mem, x, dst reg.VecVirtual) {
	if c.lanes == 16 {
		c.VPORD(m, x, dst)
	} else {
		c.VPOR(m, x, dst)
	}
}

// chooseBySign copies the lanes of negative to dst where the sign of x is set, and the lanes of
// positive elsewhere.
func (c vectors) chooseBySign(x, negative reg.VecVirtual, positive operand.Mem, dst reg.VecVirtual) {
	p := c.load(positive)
	if c.lanes == 16 {
		sign := c.K()
		c.VPMOVD2M(x, sign)
		c.VBLENDMPS(negative, p, sign, dst)
		return
	}
	c.VBLENDVPS(x, negative, p, dst)
}
