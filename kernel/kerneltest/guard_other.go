//go:build !unix

package kernel

func guarded[T any](n int) []T { return make([]T, n) }

func guardedScope() (release func()) { return func() {} }
