// Package fault turns faults on mapped files into errors.
//
// A page of a mapped file cannot be read once another program has truncated the file, or when its
// disk fails. By default, such an access ends the process with the stack of every goroutine.
package fault

import (
	"runtime/debug"
	"slices"
	"sync"
	"unsafe"
)

// region is the memory of a mapped file, from first up to but not including last.
type region struct {
	first, last uintptr
	explain     func() error
}

var (
	mu      sync.Mutex
	watched []*region
)

// Watch makes faults in memory errors for Guard, until the caller calls forget, which it must do
// before it unmaps memory. explain returns the error.
func Watch(memory []byte, explain func() error) (forget func()) {
	first := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	r := &region{first, first + uintptr(len(memory)), explain}
	mu.Lock()
	defer mu.Unlock()
	watched = append(watched, r)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		watched = slices.DeleteFunc(watched, func(other *region) bool { return other == r })
	}
}

// Protection lasts from Guard to Catch.
type Protection struct {
	before bool // the goroutine's setting before Guard
}

// Guard protects the rest of the calling function against faults in watched memory:
//
//	defer fault.Guard().Catch(&err)
//
// A fault ends the function and sets err. Other panics pass through. Every goroutine that reads mapped
// files needs a Guard of its own.
func Guard() Protection { return Protection{debug.SetPanicOnFault(true)} }

// Catch ends the protection. It must be deferred, because it recovers from panics.
func (p Protection) Catch(err *error) {
	debug.SetPanicOnFault(p.before)
	if cause := recover(); cause != nil {
		if *err = explain(cause); *err == nil {
			panic(cause)
		}
	}
}

// explain returns the error of a fault in watched memory, and nil for every other panic.
func explain(cause any) error {
	fault, ok := cause.(interface{ Addr() uintptr }) // as the runtime's panics for faults have
	if !ok {
		return nil
	}
	if r := find(fault.Addr()); r != nil {
		return r.explain()
	}
	return nil
}

// find returns the region of an address, or nil.
func find(address uintptr) *region {
	mu.Lock()
	defer mu.Unlock()
	for _, r := range watched {
		if r.first <= address && address < r.last {
			return r
		}
	}
	return nil
}
