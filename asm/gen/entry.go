package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// entry is a value x in memory, such as an entry of ψ, that is combined with every lane of a vector
// y. With AVX2, a broadcast into a register is just a load. On processors that compute 512 bits in
// two halves, a 512-bit broadcast also occupies an arithmetic unit. An AVX-512 instruction can
// instead broadcast its own memory operand (an embedded broadcast). An embedded broadcast costs
// only a load, but every y needs its own. Kernels of sums of products do not embed the broadcasts:
// their arithmetic would have to wait for the loads, and it leaves units idle that separate
// broadcasts can use.
type entry struct {
	c        vectors
	at       operand.Mem
	embedded bool
	integer  bool           // x is an integer
	what     string         // for the register map
	register reg.VecVirtual // nil before the broadcast
	last     bool           // nothing needs the register after this update
}

// lanes returns a register that holds x in all lanes. Some processors that compute 512 bits in two
// halves load a broadcast integer without an arithmetic unit, but not a broadcast float32 value.
func (e *entry) lanes() reg.VecVirtual {
	if e.register == nil {
		if e.integer {
			e.register = e.c.vec()
			e.c.VPBROADCASTD(e.at, e.register)
		} else {
			e.register = e.c.broadcast(e.at)
		}
		holds(e.c.Context, e.what, e.register)
	}
	return e.register
}

// variable returns a register that holds x in all lanes and that the update may change. An update must call it first:
// updates run in lockstep (perRegister), and the last one changes the register that the others copy.
func (e *entry) variable(c vectors) reg.VecVirtual {
	if e.last {
		return e.lanes()
	}
	x := c.vec()
	c.VMOVAPS(e.lanes(), x)
	return x
}

// inRegisters returns entries that registers already hold.
func inRegisters(words []reg.VecVirtual) (list []*entry) {
	for _, w := range words {
		list = append(list, &entry{register: w})
	}
	return list
}

// subtract sets d to x − y or to y − x.
func (e *entry) subtract(c vectors, y, d reg.VecVirtual) {
	if e.embedded {
		c.VSUBPS_BCST(e.at, y, d)
	} else {
		c.VSUBPS(y, e.lanes(), d)
	}
}

// multiply sets p to x·y.
func (e *entry) multiply(c vectors, y, p reg.VecVirtual) {
	if e.embedded {
		c.VMULPS_BCST(e.at, y, p)
	} else {
		c.VMULPS(e.lanes(), y, p)
	}
}

// multiplyAdd adds x·y to sum, fused.
func (e *entry) multiplyAdd(c vectors, y, sum reg.VecVirtual) {
	if e.embedded {
		c.VFMADD231PS_BCST(e.at, y, sum)
	} else {
		c.VFMADD231PS(y, e.lanes(), sum)
	}
}

// multiplySubtract subtracts x·y from sum, fused.
func (e *entry) multiplySubtract(c vectors, y, sum reg.VecVirtual) {
	if e.embedded {
		c.VFNMADD231PS_BCST(e.at, y, sum)
	} else {
		c.VFNMADD231PS(e.lanes(), y, sum)
	}
}
