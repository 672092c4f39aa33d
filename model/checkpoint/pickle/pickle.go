// Package pickle reads Python's pickles and never executes anything in them.
//
// A pickle is a program for a small stack machine. Its instructions build numbers, strings and
// containers, and call functions by their names. [Read] builds the values, but calls no function.
// Its [Options] list the functions whose results it can represent, and the classes whose objects it
// may keep as plain records. Any other name is an error.
//
// Python's values become these Go values:
//
//	None             nil
//	bool             bool
//	int              int64, or *big.Int if it needs more bits
//	float            float64
//	str              string
//	bytes            []byte
//	tuple            Tuple
//	list, set        *List
//	dict             *Dict
//	function, class  Global
//	object           *Object
//
// Values may share parts, and lists, dictionaries and objects may contain themselves, so code must
// not walk them without a limit.
//
// The package reads protocols 2 to 5, which PyTorch writes. Python's module pickletools documents
// the instructions.
package pickle

import "fmt"

// Global is the name of a function or a class.
type Global struct{ Module, Name string }

// String returns the qualified name, such as collections.OrderedDict.
func (g Global) String() string { return g.Module + "." + g.Name }

// Tuple is a tuple. Do not modify it.
type Tuple []any

// List is a list or a set.
type List struct{ Items []any }

// Dict is a dictionary. It keeps the order of its entries.
type Dict struct {
	Entries []Entry
	at      map[string]int // indices into Entries of the keys that are strings
}

// Entry is an entry of a dictionary.
type Entry struct{ Key, Value any }

// Get returns the value of a string key. A nil dictionary has no keys.
func (d *Dict) Get(key string) (value any, ok bool) {
	if d == nil {
		return nil, false
	}
	i, ok := d.at[key]
	if !ok {
		return nil, false
	}
	return d.Entries[i].Value, true
}

// set adds an entry, or replaces the value of a string key that d has. Other keys may occur twice.
func (d *Dict) set(key, value any) {
	name, ok := key.(string)
	if !ok {
		d.Entries = append(d.Entries, Entry{key, value})
		return
	}
	if i, ok := d.at[name]; ok {
		d.Entries[i].Value = value
		return
	}
	if d.at == nil {
		d.at = map[string]int{}
	}
	d.at[name] = len(d.Entries)
	d.Entries = append(d.Entries, Entry{key, value})
}

// Object is an object of a class that Options.Opaque allows, or the result of a function that
// Options.Opaque allows. It keeps neither the arguments of the call nor what the pickle appends to an
// object that acts as a list or a dictionary.
type Object struct {
	Class Global
	// State is the state that the pickle sets after construction, usually a *Dict of attributes.
	State any
}

// Attribute returns the attribute of the given name from the object's state. A nil object has no
// attributes.
func (o *Object) Attribute(name string) (value any, ok bool) {
	if o == nil {
		return nil, false
	}
	attributes, _ := o.State.(*Dict)
	return attributes.Get(name)
}

// Constructor returns the value of a call with the given arguments.
type Constructor func(args Tuple) (any, error)

// Options tells Read which names may occur in a pickle.
type Options struct {
	// Known maps functions and classes to their constructors. A nil constructor means that the name
	// may occur as a value, but that a call is an error.
	Known map[Global]Constructor
	// Opaque reports whether a function or class that is not known may occur. A call becomes an
	// Object. A nil function means that no such name may occur.
	Opaque func(Global) bool
	// Persistent returns the value of a persistent identifier, with which a pickle refers to data
	// outside itself. A nil function means that no such identifier may occur.
	Persistent func(id any) (any, error)
}

// Read reads the pickle at the start of data and returns its value and its length in bytes. A pickle
// with more than 2²⁵ values is an error, because its values would need several gigabytes. Errors
// give the position in data.
func Read(data []byte, o Options) (value any, length int, err error) {
	m := machine{data: data, options: o, memo: map[uint32]any{}}
	value, err = m.run()
	if err != nil {
		return nil, m.at, fmt.Errorf("the pickle cannot be read: %w (at byte %d)", err, m.begin)
	}
	return value, m.at, nil
}

// maxText limits the length of the strings that Text returns, in bytes.
const maxText = 1 << 10

// Text returns a number, a bool or a short string as text, and reports whether v is one of these.
// For any other value it returns a short description: the text of a large value may not fit into
// memory.
func Text(v any) (text string, ok bool) {
	switch v := v.(type) {
	case bool, int64, float64:
		return fmt.Sprint(v), true
	case string:
		if len(v) <= maxText {
			return v, true
		}
		return "a long string", false
	case nil:
		return "", false
	}
	return "a value that is neither a string nor a number", false
}
