package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/reg"
)

// Every kernel in the generated assembly begins with its doc comment and a register map. avo
// allocates registers only after the generator has run. Each call of holds therefore leaves a mark
// in the code, and mapRegisters later turns the marks into the map.

// mapMark is the beginning of a mark, which is a comment. After mapMark, the comment says what the
// registers contain, and then lists each register's ID and size in bytes.
const mapMark = "\x00"

// holds adds a line about the contents of the given registers to the register map.
func holds[R reg.Register](c *build.Context, what string, registers ...R) {
	line := mapMark + what
	for _, r := range registers {
		line += fmt.Sprintf("%s%d:%d", mapMark, r.ID(), r.Size())
	}
	c.Comment(line)
}

// parameter loads a parameter and adds it to the register map.
func parameter[R reg.Register](c *build.Context, name string, r R) R {
	c.Load(c.Param(name), r)
	holds(c, name, r)
	return r
}

// sizes maps a size in bytes to the kind of register that has it.
var sizes = map[string]reg.Spec{"4": reg.S32, "8": reg.S64, "16": reg.S128, "32": reg.S256, "64": reg.S512}

// mapRegisters turns the marks of a compiled function into a register map in the comment at its
// head.
func mapRegisters(f *ir.Function) error {
	var order []string
	holders := map[string][]string{} // names of registers, by what they hold
	nodes := f.Nodes[:0]
	for _, node := range f.Nodes {
		comment, ok := node.(*ir.Comment)
		if !ok || !strings.HasPrefix(comment.Lines[0], mapMark) {
			nodes = append(nodes, node)
			continue
		}
		parts := strings.Split(comment.Lines[0], mapMark)[1:]
		what := parts[0]
		if holders[what] == nil {
			order = append(order, what)
		}
		for _, part := range parts[1:] {
			number, size, _ := strings.Cut(part, ":")
			id, err := strconv.ParseUint(number, 10, 32)
			if err != nil {
				return err
			}
			r := reg.LookupID(f.Allocation.LookupDefault(reg.ID(id)), sizes[size])
			holders[what] = append(holders[what], r.Asm())
		}
	}
	f.Nodes = nodes
	head, ok := f.Nodes[0].(*ir.Comment)
	if !ok || len(order) == 0 {
		return fmt.Errorf("%s has no doc comment at its head, or no register map", f.Name)
	}
	head.Lines = append(head.Lines, "", "Registers:")
	for _, what := range order {
		head.Lines = append(head.Lines, fmt.Sprintf("  %-10s %s", ranges(holders[what]), what))
	}
	return nil
}

var numbered = regexp.MustCompile(`^([XYZKR])(\d+)$`)

// ranges lists registers and joins consecutive numbers into ranges.
func ranges(names []string) string {
	type register struct {
		kind   string
		number int
	}
	var registers []register
	var list []string
	for _, name := range names {
		if m := numbered.FindStringSubmatch(name); m != nil {
			n, _ := strconv.Atoi(m[2])
			registers = append(registers, register{m[1], n})
		} else if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	slices.SortFunc(registers, func(x, y register) int {
		return cmp.Or(cmp.Compare(x.kind, y.kind), cmp.Compare(x.number, y.number))
	})
	registers = slices.Compact(registers)
	for i := 0; i < len(registers); {
		first, last := registers[i], registers[i]
		for i++; i < len(registers) && registers[i].kind == first.kind && registers[i].number == last.number+1; i++ {
			last = registers[i]
		}
		name := fmt.Sprint(first.kind, first.number)
		if last != first {
			name += fmt.Sprint("–", last.kind, last.number)
		}
		list = append(list, name)
	}
	return strings.Join(list, ", ")
}
