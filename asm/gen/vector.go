package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vectors emits code for float32 vectors of one instruction set.
type vectors struct {
	*build.Context
	set   string
	lanes int
	vec   func() reg.VecVirtual
}

// eachSet calls emit for every instruction set.
func eachSet(c *build.Context, emit func(vectors)) {
	emit(vectors{c, "AVX512", 16, c.ZMM})
	emit(vectors{c, "AVX2", 8, c.YMM})
}

// eachVNNISet calls emit for the instruction sets that multiply bytes and add up the products in one
// instruction.
func eachVNNISet(c *build.Context, emit func(vectors)) {
	emit(vectors{c, "AVX512VNNI", 16, c.ZMM})
	emit(vectors{c, "AVXVNNI", 8, c.YMM})
}

// addBytes adds the four products of the signed bytes of x and the unsigned bytes of y to sums of 32
// bits. The instruction set must be one of eachVNNISet.
func (c vectors) addBytes(x, y, sums reg.VecVirtual) {
	if c.lanes == 16 {
		c.VPDPBUSD(x, y, sums)
	} else {
		encoded(c.Context, "{vex} VPDPBUSD", x, y, sums)
	}
}

// addCodes adds the two products of the two-byte codes of x and y to sums of 32 bits. The instruction
// set must be one of eachVNNISet.
func (c vectors) addCodes(x, y, sums reg.VecVirtual) {
	if c.lanes == 16 {
		c.VPDPWSSD(x, y, sums)
	} else {
		encoded(c.Context, "{vex} VPDPWSSD", x, y, sums)
	}
}

// at returns the address of the i-th float32 value at base.
func at(base reg.Register, i int) operand.Mem { return operand.Mem{Base: base, Disp: 4 * i} }

func (c vectors) zero() reg.VecVirtual {
	r := c.vec()
	if c.lanes == 16 {
		c.VPXORD(r, r, r)
	} else {
		c.VXORPS(r, r, r)
	}
	return r
}

func (c vectors) load(m operand.Mem) reg.VecVirtual {
	r := c.vec()
	c.VMOVUPS(m, r)
	return r
}

// broadcast returns a register with the 32 bits at m, an integer or a float32 number, in all lanes. Processors that
// compute 512 bits in two halves need an arithmetic unit for VBROADCASTSS, but not for VPBROADCASTD.
func (c vectors) broadcast(m operand.Mem) reg.VecVirtual {
	r := c.vec()
	if c.lanes == 16 {
		c.VPBROADCASTD(m, r)
	} else {
		c.VBROADCASTSS(m, r)
	}
	return r
}

// perRegister emits n independent pieces of straight-line code, one for each register of candidates.
// With AVX2, it emits the first instruction of every piece, then the second ones, and so on: the
// processor then finds independent instructions next to each other. With AVX-512, some kernels have no
// registers left for the intermediate results of several pieces.
func (c vectors) perRegister(n int, emit func(c vectors, v int)) {
	if c.lanes == 16 {
		for v := range n {
			emit(c, v)
		}
		return
	}
	pieces, longest := make([][]*ir.Instruction, n), 0
	for v := range n {
		piece := c
		piece.Context = build.NewContext()
		piece.Function("piece")
		emit(piece, v)
		file, err := piece.Result()
		if err != nil {
			panic(err)
		}
		f := file.Functions()[0]
		pieces[v] = f.Instructions()
		if len(pieces[v]) != len(f.Nodes) {
			panic("a piece has a label or a comment")
		}
		longest = max(longest, len(pieces[v]))
	}
	for i := range longest {
		for _, piece := range pieces {
			if i < len(piece) {
				c.Instruction(piece[i])
			}
		}
	}
}

// param loads an argument.
func (c vectors) param(name string) reg.GPVirtual {
	return parameter(c.Context, name, c.GP64())
}

// bytes loads an argument that counts float32 values, and converts it to bytes.
func (c vectors) bytes(name string) reg.GPVirtual {
	r := c.GP64()
	c.Load(c.Param(name), r)
	c.SHLQ(operand.Imm(2), r)
	holds(c.Context, name+", in bytes", r)
	return r
}

// rows addresses up to eight rows that begin stride bytes apart. It keeps the addresses of rows 0
// and 4 in registers.
type rows struct {
	c               vectors
	stride, stride3 reg.GPVirtual
	base            [2]reg.GPVirtual
}

func (c vectors) rows(base, stride reg.GPVirtual, n int) *rows {
	r := &rows{c: c, stride: stride, stride3: c.GP64()}
	c.LEAQ(operand.Mem{Base: stride, Index: stride, Scale: 2}, r.stride3)
	r.base[0] = c.GP64()
	c.MOVQ(base, r.base[0])
	if n > 4 {
		r.base[1] = c.GP64()
		c.LEAQ(operand.Mem{Base: base, Index: stride, Scale: 4}, r.base[1])
	}
	return r
}

func (r *rows) at(i, disp int) operand.Mem {
	base := r.base[i/4]
	switch i % 4 {
	case 0:
		return operand.Mem{Base: base, Disp: disp}
	case 3:
		return operand.Mem{Base: base, Index: r.stride3, Scale: 1, Disp: disp}
	}
	return operand.Mem{Base: base, Index: r.stride, Scale: uint8(i % 4), Disp: disp}
}

// advance moves all rows by a number of bytes, which is an operand.Imm or a register.
func (r *rows) advance(by operand.Op) {
	for _, b := range r.base {
		if b != nil {
			r.c.ADDQ(by, b)
		}
	}
}

func (c vectors) end() {
	c.VZEROUPPER()
	c.RET()
}

func (c vectors) begin(name, signature, text string) {
	function(c.Context, name, signature)
	doc(c.Context, name+" "+text)
	c.Pragma("noescape")
}

// loop emits a loop around body. Each round subtracts the constant by from n, and the loop ends
// when n is 0; n must be a positive multiple of by.
func (c vectors) loop(label string, n reg.Register, by int, body func()) {
	c.Label(label)
	body()
	c.SUBQ(operand.U32(uint32(by)), n)
	c.JNE(operand.LabelRef(label))
}

// matrixOf returns a matrix of registers that are 0.
func matrixOf(c vectors, rows, columns int) [][]reg.VecVirtual {
	m := make([][]reg.VecVirtual, rows)
	for i := range m {
		for range columns {
			m[i] = append(m[i], c.zero())
		}
	}
	return m
}
