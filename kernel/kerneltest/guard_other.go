//go:build !unix

package kerneltest

import "testing"

// Guarded returns n zeros. There are no guard pages on this system.
func Guarded[T any](_ testing.TB, n int) []T { return make([]T, n) }
