package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// entry is a value x in memory, such as an entry of ψ, that is combined with every lane of a vector y.
type entry struct {
	c        vectors
	at       operand.Mem
	what     string         // for the register map
	register reg.VecVirtual // nil before the broadcast
	last     bool           // nothing needs the register after this update
}

// lanes returns a register that holds x in all lanes.
func (e *entry) lanes() reg.VecVirtual {
	if e.register == nil {
		e.register = e.c.broadcast(e.at)
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
func (e *entry) subtract(c vectors, y, d reg.VecVirtual) { c.VSUBPS(y, e.lanes(), d) }

// multiply sets p to x·y.
func (e *entry) multiply(c vectors, y, p reg.VecVirtual) { c.VMULPS(e.lanes(), y, p) }

// multiplyAdd adds x·y to sum, fused.
func (e *entry) multiplyAdd(c vectors, y, sum reg.VecVirtual) { c.VFMADD231PS(y, e.lanes(), sum) }

// multiplySubtract subtracts x·y from sum, fused.
func (e *entry) multiplySubtract(c vectors, y, sum reg.VecVirtual) { c.VFNMADD231PS(y, e.lanes(), sum) }
