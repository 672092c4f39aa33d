package npy

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// header describes the elements of a file.
type header struct {
	descr   string
	fortran bool
	shape   []int
}

// maxRank is NumPy's limit on the number of extents.
const maxRank = 64

// parseHeader reads the dictionary of a header, such as
//
//	{'descr': '<f4', 'fortran_order': False, 'shape': (135, 32), }
//
// with its three keys in any order and with any spacing. It accepts only headers of arrays without
// fields.
func parseHeader(text []byte) (h header, err error) {
	p := parser{rest: text}
	if err := p.expect("{"); err != nil {
		return h, err
	}
	seen := map[string]bool{}
	for !p.accept("}") {
		key, err := p.text()
		if err != nil {
			return h, err
		}
		if seen[key] {
			return h, fmt.Errorf("its header has %.40q twice", key)
		}
		seen[key] = true
		if err := p.expect(":"); err != nil {
			return h, err
		}
		switch key {
		case "descr":
			if p.accept("[") {
				return h, errors.New("its elements are records, but only numbers can be read")
			}
			h.descr, err = p.text()
		case "fortran_order":
			h.fortran, err = p.boolean()
		case "shape":
			h.shape, err = p.tuple()
		default:
			err = fmt.Errorf("its header has an unknown key %.40q", key)
		}
		if err != nil {
			return h, err
		}
		if !p.accept(",") {
			if err := p.expect("}"); err != nil {
				return h, err
			}
			break
		}
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return h, fmt.Errorf("its header lacks %q", key)
		}
	}
	p.space()
	if len(p.rest) > 0 {
		return h, p.unexpected("the end")
	}
	return h, nil
}

// parser consumes a header from the front.
type parser struct{ rest []byte }

func (p *parser) space() { p.rest = bytes.TrimLeft(p.rest, " \t\n") }

// accept skips a token if it comes next, and reports whether it did.
func (p *parser) accept(token string) bool {
	p.space()
	rest, found := bytes.CutPrefix(p.rest, []byte(token))
	p.rest = rest
	return found
}

func (p *parser) expect(token string) error {
	if !p.accept(token) {
		return p.unexpected(strconv.Quote(token))
	}
	return nil
}

func (p *parser) unexpected(want string) error {
	return fmt.Errorf("damaged: its header has %.20q where %s should be", p.rest, want)
}

// text reads a quoted string without escape sequences.
func (p *parser) text() (string, error) {
	p.space()
	if len(p.rest) > 0 && strings.IndexByte(`'"`, p.rest[0]) >= 0 {
		if text, rest, found := bytes.Cut(p.rest[1:], p.rest[:1]); found && !bytes.ContainsAny(text, "\\\n") {
			p.rest = rest
			return string(text), nil
		}
	}
	return "", p.unexpected("a name in quotes")
}

func (p *parser) boolean() (bool, error) {
	switch {
	case p.accept("True"):
		return true, nil
	case p.accept("False"):
		return false, nil
	}
	return false, p.unexpected("True or False")
}

// tuple reads a shape, such as (), (3,) or (3, 4).
func (p *parser) tuple() ([]int, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	shape := []int{}
	for !p.accept(")") {
		if len(shape) == maxRank {
			return nil, fmt.Errorf("its shape has more than %d extents", maxRank)
		}
		p.space()
		n := 0
		for n < len(p.rest) && '0' <= p.rest[n] && p.rest[n] <= '9' {
			n++
		}
		if n == 0 {
			return nil, p.unexpected("an extent")
		}
		extent, err := strconv.ParseUint(string(p.rest[:n]), 10, 64)
		if err != nil || extent > math.MaxInt {
			return nil, fmt.Errorf("its shape has the impossible extent %.40s", p.rest[:n])
		}
		p.rest = p.rest[n:]
		p.accept("L") // a Python 2 long integer
		shape = append(shape, int(extent))
		if !p.accept(",") {
			if len(shape) == 1 {
				return nil, p.unexpected(`","`)
			}
			return shape, p.expect(")")
		}
	}
	return shape, nil
}
