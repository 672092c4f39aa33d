package pickle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"unicode/utf8"
)

// These are the instructions of a pickle, with Python's names.
const (
	opMark           = '('
	opStop           = '.'
	opPop            = '0'
	opPopMark        = '1'
	opDup            = '2'
	opBinFloat       = 'G'
	opBinInt         = 'J'
	opBinInt1        = 'K'
	opBinInt2        = 'M'
	opNone           = 'N'
	opBinPersID      = 'Q'
	opReduce         = 'R'
	opBinString      = 'T'
	opShortBinString = 'U'
	opBinUnicode     = 'X'
	opEmptyList      = ']'
	opAppend         = 'a'
	opBuild          = 'b'
	opGlobal         = 'c'
	opAppends        = 'e'
	opBinGet         = 'h'
	opLongBinGet     = 'j'
	opBinPut         = 'q'
	opLongBinPut     = 'r'
	opSetItem        = 's'
	opTuple          = 't'
	opEmptyTuple     = ')'
	opSetItems       = 'u'
	opEmptyDict      = '}'

	opProto    = 0x80
	opNewObj   = 0x81
	opTuple1   = 0x85
	opTuple2   = 0x86
	opTuple3   = 0x87
	opNewTrue  = 0x88
	opNewFalse = 0x89
	opLong1    = 0x8a
	opLong4    = 0x8b

	opBinBytes        = 'B'
	opShortBinBytes   = 'C'
	opShortBinUnicode = 0x8c
	opBinUnicode8     = 0x8d
	opBinBytes8       = 0x8e
	opEmptySet        = 0x8f
	opAddItems        = 0x90
	opFrozenSet       = 0x91
	opNewObjEx        = 0x92
	opStackGlobal     = 0x93
	opMemoize         = 0x94
	opFrame           = 0x95
)

const newestProtocol = 5

// textOps are the instructions that only protocols 0 and 1 need.
const textOps = "FILSVdgilop"

var (
	errTruncated = errors.New("it is truncated")
	errStack     = errors.New("it is damaged: an instruction finds no value on the stack")
	errValues    = fmt.Errorf("it has more than %d values: remove what does not belong to the model, and save it again",
		maxValues)
	errNames = errors.New("its keys and names have more than 4 GiB in total: it is damaged, or made to " +
		"keep its readers busy")
)

// maxValues limits the number of instructions that push or store a value or a mark. One byte can be
// such an instruction, and its value needs about 100 bytes of memory, or up to 300 in a dictionary
// with one entry. The largest pickles hold the labels of a graph, which need two instructions each.
const maxValues = 1 << 25

// maxNames limits the total length in bytes of the keys of dictionaries, the names of classes and
// functions, and the strings in persistent identifiers. Each of their uses reads all of the string, and
// three bytes of a pickle can be such a use.
const maxNames = 1 << 32

// machine runs the instructions of a pickle.
type machine struct {
	data    []byte
	at      int // the position of the next byte
	begin   int // the position of the current instruction
	options Options
	stack   []any
	marks   []int // lengths of the stack at the open marks
	memo    map[uint32]any
	values  int   // the number of instructions that maxValues limits
	names   int64 // the number of bytes that maxNames limits
}

// run runs the instructions up to STOP and returns the value on the stack.
func (m *machine) run() (any, error) {
	for {
		m.begin = m.at
		op, err := m.take(1)
		if err != nil {
			return nil, err
		}
		if op[0] == opStop {
			return m.pop()
		}
		if err := m.step(op[0]); err != nil {
			return nil, err
		}
	}
}

// take returns the next n bytes.
func (m *machine) take(n uint64) ([]byte, error) {
	if n > uint64(len(m.data)-m.at) {
		return nil, errTruncated
	}
	b := m.data[m.at : m.at+int(n)]
	m.at += int(n)
	return b, nil
}

// number returns the next size bytes as an unsigned integer.
func (m *machine) number(size int) (uint64, error) {
	b, err := m.take(uint64(size))
	if err != nil {
		return 0, err
	}
	var whole [8]byte
	copy(whole[:], b)
	return binary.LittleEndian.Uint64(whole[:]), nil
}

// counted reads a length, an integer of size bytes, and returns that many of the following bytes.
func (m *machine) counted(size int) ([]byte, error) {
	n, err := m.number(size)
	if err != nil {
		return nil, err
	}
	return m.take(n)
}

// line returns the bytes up to the next end of line.
func (m *machine) line() (string, error) {
	end := slices.Index(m.data[m.at:], '\n')
	if end < 0 {
		return "", errTruncated
	}
	b, err := m.take(uint64(end) + 1)
	return string(b[:max(len(b)-1, 0)]), err
}

func (m *machine) push(v any) error {
	m.stack = append(m.stack, v)
	return m.count()
}

// count counts an instruction that pushes or stores something.
func (m *machine) count() error {
	if m.values++; m.values > maxValues {
		return errValues
	}
	return nil
}

// countNames counts the strings among values that are looked up in a map.
func (m *machine) countNames(values ...any) error {
	for _, v := range values {
		if name, ok := v.(string); ok {
			m.names += int64(len(name))
		}
	}
	if m.names > maxNames {
		return errNames
	}
	return nil
}

// floor returns the length of the stack below which an instruction must not pop values.
func (m *machine) floor() int {
	if len(m.marks) == 0 {
		return 0
	}
	return m.marks[len(m.marks)-1]
}

func (m *machine) pop() (any, error) {
	v, err := m.top()
	if err == nil {
		m.stack = m.stack[:len(m.stack)-1]
	}
	return v, err
}

func (m *machine) top() (any, error) {
	if len(m.stack) <= m.floor() {
		return nil, errStack
	}
	return m.stack[len(m.stack)-1], nil
}

// popTuple pops n values and returns them in the order in which they were pushed.
func (m *machine) popTuple(n int) (Tuple, error) {
	from := len(m.stack) - n
	if from < m.floor() {
		return nil, errStack
	}
	values := Tuple(slices.Clone(m.stack[from:]))
	m.stack = m.stack[:from]
	return values, nil
}

// popMark pops the values above the last mark, and the mark.
func (m *machine) popMark() (Tuple, error) {
	if len(m.marks) == 0 {
		return nil, errStack
	}
	values, err := m.popTuple(len(m.stack) - m.floor())
	m.marks = m.marks[:len(m.marks)-1]
	return values, err
}

// step runs one instruction.
func (m *machine) step(op byte) error {
	switch op {
	case opProto:
		version, err := m.number(1)
		if err == nil && version > newestProtocol {
			err = fmt.Errorf("it has protocol %d, but the newest known protocol is %d", version, newestProtocol)
		}
		return err
	case opFrame:
		_, err := m.take(8)
		return err

	case opMark:
		m.marks = append(m.marks, len(m.stack))
		return m.count()
	case opPop:
		if len(m.stack) == m.floor() && len(m.marks) > 0 {
			m.marks = m.marks[:len(m.marks)-1]
			return nil
		}
		_, err := m.pop()
		return err
	case opPopMark:
		_, err := m.popMark()
		return err
	case opDup:
		v, err := m.top()
		if err != nil {
			return err
		}
		return m.push(v)

	case opNone:
		return m.push(nil)
	case opNewTrue, opNewFalse:
		return m.push(op == opNewTrue)
	case opEmptyTuple:
		return m.push(Tuple{})
	case opEmptyList, opEmptySet:
		return m.push(&List{})
	case opEmptyDict:
		return m.push(&Dict{})

	case opBinInt, opBinInt1, opBinInt2, opLong1, opLong4, opBinFloat:
		return m.pushNumber(op)
	case opBinString, opShortBinString, opBinUnicode, opShortBinUnicode, opBinUnicode8,
		opBinBytes, opShortBinBytes, opBinBytes8:
		return m.pushText(op)
	case opTuple, opTuple1, opTuple2, opTuple3, opFrozenSet:
		return m.pushTuple(op)

	case opBinGet, opLongBinGet, opBinPut, opLongBinPut, opMemoize:
		return m.memory(op)
	case opAppend, opAppends, opAddItems, opSetItem, opSetItems:
		return m.fill(op)
	case opGlobal, opStackGlobal:
		return m.pushGlobal(op)
	case opReduce, opNewObj, opNewObjEx:
		return m.call(op)
	case opBuild:
		return m.build()
	case opBinPersID:
		return m.persistent()
	}
	if slices.Contains([]byte(textOps), op) {
		return errors.New("it has the old protocol 0 or 1: save the file again with a current version of its tool")
	}
	return fmt.Errorf("it is damaged, or not a pickle: instruction 0x%02x is unknown", op)
}

func (m *machine) pushNumber(op byte) error {
	switch op {
	case opLong1, opLong4:
		size := 1
		if op == opLong4 {
			size = 4
		}
		b, err := m.counted(size)
		if err != nil {
			return err
		}
		return m.push(long(b))
	case opBinFloat: // the only big-endian number
		b, err := m.take(8)
		if err != nil {
			return err
		}
		return m.push(math.Float64frombits(binary.BigEndian.Uint64(b)))
	}
	size := 1
	switch op {
	case opBinInt:
		size = 4
	case opBinInt2:
		size = 2
	}
	n, err := m.number(size)
	if err != nil {
		return err
	}
	if op == opBinInt { // the other sizes are unsigned
		return m.push(int64(int32(uint32(n))))
	}
	return m.push(int64(n))
}

// long returns the value of little-endian bytes in two's complement.
func long(b []byte) any {
	if len(b) <= 8 {
		var whole [8]byte
		if len(b) > 0 && b[len(b)-1] >= 0x80 {
			whole = [8]byte{255, 255, 255, 255, 255, 255, 255, 255}
		}
		copy(whole[:], b)
		return int64(binary.LittleEndian.Uint64(whole[:]))
	}
	digits := slices.Clone(b)
	slices.Reverse(digits) // big.Int needs the most significant byte first
	n := new(big.Int).SetBytes(digits)
	if digits[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n
}

func (m *machine) pushText(op byte) error {
	size := 4
	switch op {
	case opShortBinString, opShortBinUnicode, opShortBinBytes:
		size = 1
	case opBinUnicode8, opBinBytes8:
		size = 8
	}
	b, err := m.counted(size)
	if err != nil {
		return err
	}
	switch op {
	case opBinBytes, opShortBinBytes, opBinBytes8:
		return m.push(slices.Clone(b))
	}
	if !utf8.Valid(b) {
		return errors.New("a string is not UTF-8")
	}
	return m.push(string(b))
}

func (m *machine) pushTuple(op byte) (err error) {
	var values Tuple
	switch op {
	case opTuple, opFrozenSet:
		values, err = m.popMark()
	default:
		values, err = m.popTuple(int(op-opTuple1) + 1)
	}
	if err != nil {
		return err
	}
	if op == opFrozenSet {
		return m.push(&List{values})
	}
	return m.push(values)
}

// memory stores the top of the stack in the memo, or pushes a value from the memo.
func (m *machine) memory(op byte) error {
	at := uint64(len(m.memo)) // for MEMOIZE
	switch op {
	case opBinGet, opBinPut, opLongBinGet, opLongBinPut:
		size := 1
		if op == opLongBinGet || op == opLongBinPut {
			size = 4
		}
		var err error
		if at, err = m.number(size); err != nil {
			return err
		}
	}
	if op == opBinGet || op == opLongBinGet {
		v, ok := m.memo[uint32(at)]
		if !ok {
			return fmt.Errorf("it is damaged: its memo has no value %d", at)
		}
		return m.push(v)
	}
	v, err := m.top()
	if err != nil {
		return err
	}
	m.memo[uint32(at)] = v
	return m.count()
}

// fill adds values to the container below them on the stack.
func (m *machine) fill(op byte) (err error) {
	var values Tuple
	switch op {
	case opAppend:
		values, err = m.popTuple(1)
	case opSetItem:
		values, err = m.popTuple(2)
	default:
		values, err = m.popMark()
	}
	if err != nil {
		return err
	}
	container, err := m.top()
	if err != nil {
		return err
	}
	pairs, even := op == opSetItem || op == opSetItems, len(values)%2 == 0
	switch c := container.(type) {
	case *List:
		if !pairs {
			c.Items = append(c.Items, values...)
			return nil
		}
	case *Dict:
		if pairs && even {
			for i := 0; i < len(values); i += 2 {
				if err := m.countNames(values[i]); err != nil {
					return err
				}
				c.set(values[i], values[i+1])
			}
			return nil
		}
	case *Object:
		if !pairs || even {
			return nil // an Object does not keep them
		}
	}
	return errors.New("it is damaged: it adds values to something that cannot hold them")
}

func (m *machine) pushGlobal(op byte) error {
	var g Global
	if op == opGlobal {
		var err error
		if g.Module, err = m.line(); err != nil {
			return err
		}
		if g.Name, err = m.line(); err != nil {
			return err
		}
	} else {
		names, err := m.popTuple(2)
		if err == nil {
			err = m.countNames(names...)
		}
		if err != nil {
			return err
		}
		module, ok1 := names[0].(string)
		name, ok2 := names[1].(string)
		if !ok1 || !ok2 {
			return errors.New("it is damaged: the name of a class or function is not a string")
		}
		g = Global{module, name}
	}
	if _, known := m.options.Known[g]; !known && (m.options.Opaque == nil || !m.options.Opaque(g)) {
		return fmt.Errorf("it refers to %.100q, which is not among the names that are safe to read", g.String())
	}
	return m.push(g)
}

// call interprets a call of a function or class. It runs no code that the pickle names.
func (m *machine) call(op byte) error {
	operands := 2
	if op == opNewObjEx {
		operands = 3
	}
	values, err := m.popTuple(operands)
	if err != nil {
		return err
	}
	args, ok := values[1].(Tuple)
	if !ok {
		return errors.New("it is damaged: the arguments of a call are not a tuple")
	}
	g, ok := values[0].(Global)
	if !ok { // a result of another call, such as a bound method
		if o, isObject := values[0].(*Object); isObject {
			return m.push(&Object{Class: o.Class})
		}
		return errors.New("it is damaged: it calls a value that is not a function")
	}
	if construct, known := m.options.Known[g]; known {
		if construct == nil {
			return fmt.Errorf("it calls %v, which may occur but must not be called", g)
		}
		v, err := construct(args)
		if err != nil {
			return fmt.Errorf("%v: %w", g, err)
		}
		return m.push(v)
	}
	return m.push(&Object{Class: g})
}

// build sets the state of the object on the stack.
func (m *machine) build() error {
	state, err := m.pop()
	if err != nil {
		return err
	}
	v, err := m.top()
	if err != nil {
		return err
	}
	if o, ok := v.(*Object); ok {
		o.State = state
	}
	// The state of other values, such as the attributes of an OrderedDict, does not matter.
	return nil
}

func (m *machine) persistent() error {
	id, err := m.pop()
	if err != nil {
		return err
	}
	if m.options.Persistent == nil {
		return errors.New("it refers to data outside itself")
	}
	fields, _ := id.(Tuple)
	if err := m.countNames(fields...); err != nil {
		return err
	}
	v, err := m.options.Persistent(id)
	if err != nil {
		return err
	}
	return m.push(v)
}
