package torch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/mquine/mquine/model/checkpoint/internal/mapped"
	"github.com/mquine/mquine/model/checkpoint/pickle"
)

// Type is the type of a tensor's elements.
type Type uint8

// These are the types of elements.
const (
	Float32 Type = iota
	Float64
	Float16
	BFloat16
	Int64
	Int32
	Int16
	Int8
	Uint8
	Bool
)

// types lists the types in the order of their constants.
var types = [...]struct {
	name  string
	class string // the storage's class in the module torch
	size  int
}{
	{"float32", "FloatStorage", 4}, {"float64", "DoubleStorage", 8}, {"float16", "HalfStorage", 2},
	{"bfloat16", "BFloat16Storage", 2}, {"int64", "LongStorage", 8}, {"int32", "IntStorage", 4},
	{"int16", "ShortStorage", 2}, {"int8", "CharStorage", 1}, {"uint8", "ByteStorage", 1}, {"bool", "BoolStorage", 1},
}

// String returns PyTorch's name for the type, such as float32.
func (t Type) String() string { return types[t].name }

func (t Type) size() int { return types[t].size }

// storage holds the elements of one or several tensors.
type storage struct {
	kind  Type
	count int64
	data  []byte // nil until fill
}

// fill sets the elements.
func (s *storage) fill(key string, data []byte) error {
	if over, size := bits.Mul64(uint64(s.count), uint64(s.kind.size())); over != 0 || size != uint64(len(data)) {
		return fmt.Errorf("it is damaged or truncated: storage %.100q of %d %v has %d bytes",
			key, s.count, s.kind, len(data))
	}
	s.data = data
	return nil
}

// sameAs returns an error if two tensors describe their storage in different ways.
func (s *storage) sameAs(kind Type, count int64) error {
	if s.kind != kind || s.count != count {
		return fmt.Errorf("two tensors share a storage, but describe it as %d %v and as %d %v",
			s.count, s.kind, count, kind)
	}
	return nil
}

// Tensor is a tensor in a file.
type Tensor struct {
	// Type is the type of the elements, and Shape holds the extents. Do not modify Shape.
	Type     Type
	Shape    []int
	stride   []int // in elements
	offset   int
	expanded bool
	*storage
}

// Expanded reports whether the tensor has more elements than its storage, as PyTorch's expand makes
// them. Float32 does not apply to such a tensor, whose elements might not fit into memory.
func (t *Tensor) Expanded() bool { return t.expanded }

// Len returns the number of elements.
func (t *Tensor) Len() int {
	n := 1
	for _, extent := range t.Shape {
		n *= extent
	}
	return n
}

// Float32 returns the elements in row-major order, converted to float32 if they have another type.
// On a little-endian machine, aligned float32 numbers in row-major order share the memory of the
// file, which is read-only and valid until Close. Otherwise they are a converted copy. Float32 panics
// if the tensor is Expanded.
func (t *Tensor) Float32() []float32 {
	if t.expanded {
		panic("torch: Float32 of an expanded tensor")
	}
	if t.Type == Float32 && t.contiguous() {
		return mapped.Float32s(t.data[4*t.offset:][:4*t.Len()])
	}
	values := make([]float32, t.Len())
	index := make([]int, len(t.Shape))
	at := t.offset
	for i := range values {
		values[i] = t.element(at)
		// Step to the next element in row-major order.
		for axis := len(index) - 1; axis >= 0; axis-- {
			index[axis]++
			at += t.stride[axis]
			if index[axis] < t.Shape[axis] {
				break
			}
			at -= t.stride[axis] * t.Shape[axis]
			index[axis] = 0
		}
	}
	return values
}

// contiguous reports whether the elements lie in row-major order without gaps.
func (t *Tensor) contiguous() bool {
	want := 1
	for axis := len(t.Shape) - 1; axis >= 0; axis-- {
		if t.Shape[axis] != 1 && t.stride[axis] != want {
			return false
		}
		want *= t.Shape[axis]
	}
	return true
}

// element returns an element of the storage as float32.
func (t *Tensor) element(at int) float32 {
	b := t.data[at*t.Type.size():]
	switch t.Type {
	case Float32:
		return math.Float32frombits(binary.LittleEndian.Uint32(b))
	case Float64:
		return float32(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case Float16:
		return mapped.Half(binary.LittleEndian.Uint16(b))
	case BFloat16:
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
	case Int64:
		return float32(int64(binary.LittleEndian.Uint64(b)))
	case Int32:
		return float32(int32(binary.LittleEndian.Uint32(b)))
	case Int16:
		return float32(int16(binary.LittleEndian.Uint16(b)))
	case Int8:
		return float32(int8(b[0]))
	}
	return float32(b[0])
}

// builder makes the tensors of a pickle.
type builder struct {
	// storage returns the storage of a key.
	storage func(key string, kind Type, count int64) (*storage, error)
	tensors []*Tensor
}

// options returns the names that a pickle of torch.save may refer to.
func (b *builder) options(opaque func(pickle.Global) bool) pickle.Options {
	known := map[pickle.Global]pickle.Constructor{
		{Module: "torch._utils", Name: "_rebuild_tensor_v2"}:            b.tensor,
		{Module: "torch._utils", Name: "_rebuild_parameter"}:            first,
		{Module: "torch._utils", Name: "_rebuild_parameter_with_state"}: first,
		{Module: "torch", Name: "Size"}:                                 first,
		{Module: "torch", Name: "device"}:                               first,
		{Module: "torch.torch_version", Name: "TorchVersion"}:           first,
		{Module: "collections", Name: "OrderedDict"}:                    dictionary,
		{Module: "builtins", Name: "set"}:                               set,
		{Module: "__builtin__", Name: "set"}:                            set,
	}
	for _, t := range types {
		known[pickle.Global{Module: "torch", Name: t.class}] = nil
	}
	return pickle.Options{Known: known, Opaque: opaque, Persistent: b.persistent}
}

// first returns the first argument of a call, which represents the call's result.
func first(args pickle.Tuple) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("it has no argument")
	}
	return args[0], nil
}

// dictionary returns an ordered dictionary. PyTorch adds the entries after the call.
func dictionary(args pickle.Tuple) (any, error) {
	if len(args) > 0 {
		return nil, errors.New("it has an argument, but PyTorch gives none")
	}
	return &pickle.Dict{}, nil
}

// set returns a set of the elements of a list.
func set(args pickle.Tuple) (any, error) {
	if len(args) == 0 {
		return &pickle.List{}, nil
	}
	list, ok := args[0].(*pickle.List)
	if !ok {
		return nil, errors.New("its argument is not a list")
	}
	return list, nil
}

// persistent returns the storage that a persistent identifier describes: ('storage', class, key,
// location, number of elements) and, in old files, a view, which must be None.
func (b *builder) persistent(id any) (any, error) {
	fields, _ := id.(pickle.Tuple)
	if len(fields) < 5 || fields[0] != "storage" || len(fields) > 5 && fields[5] != nil {
		return nil, errors.New("it refers to data that are not a plain storage of a tensor")
	}
	class, _ := fields[1].(pickle.Global)
	key, isText := fields[2].(string)
	count, isNumber := fields[4].(int64)
	if !isText || !isNumber || count < 0 {
		return nil, errors.New("it is damaged: the description of a storage is not valid")
	}
	for kind := range types {
		if class == (pickle.Global{Module: "torch", Name: types[kind].class}) {
			return b.storage(key, Type(kind), count)
		}
	}
	return nil, fmt.Errorf("tensors of class %.100q cannot be read: convert them to float32 and save the file again",
		class.String())
}

// tensor makes a tensor from the arguments (storage, offset, shape, strides, …).
func (b *builder) tensor(args pickle.Tuple) (any, error) {
	if len(args) < 4 {
		return nil, errors.New("a tensor has too few arguments")
	}
	s, ok := args[0].(*storage)
	offset, isNumber := args[1].(int64)
	shape, isShape := extents(args[2])
	stride, isStride := extents(args[3])
	if !ok || !isNumber || offset < 0 || offset > math.MaxInt || !isShape || !isStride || len(shape) != len(stride) {
		return nil, errors.New("the description of a tensor is not valid")
	}
	if len(args) > 6 {
		if flags, _ := args[6].(*pickle.Dict); flags == nil || len(flags.Entries) > 0 {
			return nil, errors.New("a tensor is a conjugate or negative view: clone it and save the file again")
		}
	}
	t := &Tensor{Type: s.kind, Shape: shape, stride: stride, offset: int(offset), storage: s}
	b.tensors = append(b.tensors, t)
	return t, t.inside()
}

// maxAxes is the largest number of axes of a tensor. No model needs more than four.
const maxAxes = 16

// extents returns the numbers of a tuple, if they are not negative.
func extents(v any) ([]int, bool) {
	tuple, ok := v.(pickle.Tuple)
	if !ok || len(tuple) > maxAxes {
		return nil, false
	}
	list := make([]int, len(tuple))
	for i, v := range tuple {
		n, ok := v.(int64)
		if !ok || n < 0 || n > math.MaxInt {
			return nil, false
		}
		list[i] = int(n)
	}
	return list, true
}

// inside sets t.expanded. It returns an error if the tensor reaches beyond its storage.
func (t *Tensor) inside() error {
	last, elements := uint64(t.offset), uint64(1)
	empty := slices.Contains(t.Shape, 0)
	for axis, n := range t.Shape {
		over1, steps := bits.Mul64(uint64(max(n-1, 0)), uint64(t.stride[axis]))
		over2, product := bits.Mul64(elements, uint64(max(n, 1)))
		var carry uint64
		last, carry = bits.Add64(last, steps, 0)
		elements = product
		if over1|over2|carry != 0 || elements > math.MaxInt {
			return fmt.Errorf("shape %v of a tensor is impossible", t.Shape)
		}
	}
	count := uint64(t.count)
	t.expanded = !empty && elements > count
	if !empty && last >= count || empty && uint64(t.offset) > count {
		return fmt.Errorf("a tensor of shape %v and strides %v from element %d on needs more than the %d elements "+
			"of its storage", t.Shape, t.stride, t.offset, t.count)
	}
	return nil
}

// check returns an error if the elements of a tensor are missing from the file.
func (b *builder) check() error {
	for _, t := range b.tensors {
		if t.data == nil && t.count > 0 {
			return errors.New("it is truncated: the elements of a tensor are missing")
		}
	}
	return nil
}
