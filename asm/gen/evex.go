package main

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// This file encodes AVX-512 instructions that neither avo nor Go's assembler knows. The generators
// emit them by name, with virtual registers. After avo has allocated the registers, encode writes
// them as bytes (Intel SDM, volume 2, section "EVEX").

// evexInstruction describes an instruction of map 0F38 whose three operands are vector registers.
type evexInstruction struct {
	prefix, opcode byte
	accumulates    bool // the destination is an input, too
}

// bfloat16ISA is the feature of the instructions in evexInstructions.
const bfloat16ISA = "AVX512_BF16"

var evexInstructions = map[string]evexInstruction{
	"VDPBF16PS":      {prefixF3, 0x52, true},
	"VCVTNE2PS2BF16": {prefixF2, 0x72, false},
}

// evex emits an instruction. The operands are in the order of Go's assembler, with the destination
// last.
func evex(c *build.Context, name string, x, y, dst reg.VecVirtual) {
	inputs := []operand.Op{x, y}
	if evexInstructions[name].accumulates {
		inputs = append(inputs, dst)
	}
	c.Instruction(&ir.Instruction{
		Opcode: name, Operands: []operand.Op{x, y, dst}, Inputs: inputs, Outputs: []operand.Op{dst},
		ISA: []string{bfloat16ISA},
	})
}

// encode writes the instructions in evexInstructions as bytes.
func encode(f *ir.Function) {
	var nodes []ir.Node
	for _, node := range f.Nodes {
		i, _ := node.(*ir.Instruction)
		if i == nil || evexInstructions[i.Opcode] == (evexInstruction{}) {
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
		code := evexInstructions[i.Opcode]
		for _, b := range code.bytes(i.Operands[2].(reg.Register).Size(), numbers[0], numbers[1], numbers[2]) {
			nodes = append(nodes, &ir.Instruction{Opcode: "BYTE", Operands: []operand.Op{operand.Imm(uint64(b))}})
		}
	}
	f.Nodes = nodes
}

// bytes encodes an instruction on registers of the given size in bytes, with their numbers.
func (x evexInstruction) bytes(size uint, rm, vvvv, dst byte) []byte {
	// inverted returns a mask that clears bit `to` if bit `from` of n is set: EVEX inverts these bits.
	inverted := func(n byte, from, to int) byte { return ^(n >> from & 1 << to) }
	const map0F38 = 2
	length := byte(size / 32) // 0: 128 bits, 1: 256 bits, 2: 512 bits
	return []byte{
		0x62,
		(0xf0 | map0F38) & inverted(dst, 3, 7) & inverted(rm, 4, 6) & inverted(rm, 3, 5) & inverted(dst, 4, 4),
		(^vvvv&15)<<3 | 4 | x.prefix,
		(length<<5 | 8) & inverted(vvvv, 4, 3),
		x.opcode,
		0xc0 | dst&7<<3 | rm&7,
	}
}
