package main

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file encodes instructions that neither avo nor Go's assembler knows. The generators emit them
// by name, with virtual registers. After avo has allocated the registers, encode writes them as bytes
// (Intel SDM, volume 2, sections "VEX" and "EVEX").

// encodedInstruction describes an instruction of map 0F38 whose three operands are vector registers.
type encodedInstruction struct {
	isa            string
	prefix, opcode byte
	accumulates    bool // the destination is an input, too
}

// bfloat16ISA and avxVNNIISA are the features of the instructions in encodedInstructions.
const (
	bfloat16ISA = "AVX512_BF16"
	avxVNNIISA  = "AVX_VNNI"
)

// encodedInstructions lists the instructions by name. Go's assembler knows VPDPBUSD and VPDPWSSD of
// AVX-512 only.
var encodedInstructions = map[string]encodedInstruction{
	"VDPBF16PS":      {bfloat16ISA, prefixF3, 0x52, true},
	"VCVTNE2PS2BF16": {bfloat16ISA, prefixF2, 0x72, false},
	"{vex} VPDPBUSD": {avxVNNIISA, prefix66, 0x50, true},
	"{vex} VPDPWSSD": {avxVNNIISA, prefix66, 0x52, true},
}

// encoded emits an instruction. The operands are in the order of Go's assembler, with the
// destination last.
func encoded(c *build.Context, name string, x, y, dst reg.VecVirtual) {
	code := encodedInstructions[name]
	inputs := []operand.Op{x, y}
	if code.accumulates {
		inputs = append(inputs, dst)
	}
	c.Instruction(&ir.Instruction{
		Opcode: name, Operands: []operand.Op{x, y, dst}, Inputs: inputs, Outputs: []operand.Op{dst},
		ISA: []string{code.isa},
	})
}

// evexOnly makes encode write the instructions of AVX-VNNI with EVEX prefixes, as instructions of
// AVX-512 VNNI and VL with the same operands and results. Processors with AVX-512 VNNI but without
// AVX-VNNI can then test the AVXVNNI kernels (scripts/check-avxvnni).
var evexOnly bool

// encode writes the instructions in encodedInstructions as bytes.
func encode(f *ir.Function) {
	var nodes []ir.Node
	for _, node := range f.Nodes {
		i, _ := node.(*ir.Instruction)
		if i == nil || encodedInstructions[i.Opcode].isa == "" {
			nodes = append(nodes, node)
			continue
		}
		var names []string
		var numbers []byte
		for _, op := range i.Operands {
			names = append(names, op.Asm())
			numbers = append(numbers, byte(op.(reg.VecPhysical).PhysicalIndex()))
		}
		nodes = append(nodes, ir.NewComment(fmt.Sprintf("%s %s", i.Opcode, strings.Join(names, ", "))))
		code := encodedInstructions[i.Opcode]
		length := byte(i.Operands[2].(reg.Register).Size() / 32) // 0: 128 bits, 1: 256 bits, 2: 512 bits
		bytes := code.evex
		if code.isa == avxVNNIISA && !evexOnly {
			bytes = code.vex
		}
		for _, b := range bytes(length, numbers[0], numbers[1], numbers[2]) {
			nodes = append(nodes, &ir.Instruction{Opcode: "BYTE", Operands: []operand.Op{operand.Imm(uint64(b))}})
		}
	}
	f.Nodes = nodes
}

const map0F38 = 2

// inverted returns a mask that clears bit `to` if bit `from` of n is set: prefixes contain the upper
// bits of register numbers inverted.
func inverted(n byte, from, to int) byte { return ^(n >> from & 1 << to) }

// evex encodes an instruction with an EVEX prefix.
func (x encodedInstruction) evex(length, rm, vvvv, dst byte) []byte {
	return []byte{
		0x62,
		(0xf0 | map0F38) & inverted(dst, 3, 7) & inverted(rm, 4, 6) & inverted(rm, 3, 5) & inverted(dst, 4, 4),
		(^vvvv&15)<<3 | 4 | x.prefix,
		(length<<5 | 8) & inverted(vvvv, 4, 3),
		x.opcode,
		0xc0 | dst&7<<3 | rm&7,
	}
}

// vex encodes an instruction with a three-byte VEX prefix. Registers have numbers below 16.
func (x encodedInstruction) vex(length, rm, vvvv, dst byte) []byte {
	return []byte{
		0xc4,
		(0xe0 | map0F38) & inverted(dst, 3, 7) & inverted(rm, 3, 5),
		(^vvvv&15)<<3 | length<<2 | x.prefix,
		x.opcode,
		0xc0 | dst&7<<3 | rm&7,
	}
}
