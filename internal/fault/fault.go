// Package fault turns memory faults in mapped files into errors.
//
// Reading a mapped page causes a fault if another program has truncated the file or the disk fails.
// By default, a fault crashes the process and prints the stack of every goroutine.
package fault

import (
	"runtime/debug"
	"slices"
	"sync"
	"unsafe"
)

// region is the memory of a mapped file, [first, last).
type region struct {
	first, last uintptr
	explain     func() error
}

var (
	mu      sync.Mutex
	watched []*region
)

// Watch makes Guard turn faults at addresses in the slice memory into the error that explain
// returns. The caller must call forget before it unmaps the slice.
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

// Watched reports whether the value at p is in watched memory.
func Watched(p unsafe.Pointer) bool { return find(uintptr(p)) != nil }

// Protection is the state that Guard saves for Catch.
type Protection struct {
	before bool // debug.SetPanicOnFault's previous setting
}

// Guard protects the rest of the calling function against faults in watched memory:
//
//	defer fault.Guard().Catch(&err)
//
// A fault ends the function and sets err. Other panics propagate. Every goroutine that reads mapped
// files needs its own Guard.
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

// explain returns the error for a fault in watched memory, and nil for any other panic.
func explain(cause any) error {
	fault, ok := cause.(interface{ Addr() uintptr }) // the runtime's error for a fault has this method
	if !ok {
		return nil
	}
	if r := find(fault.Addr()); r != nil {
		return r.explain()
	}
	return nil
}

// find returns the watched region that holds address, or nil.
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
