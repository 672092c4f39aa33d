package train

// resize returns a slice of n elements, which reuses the memory of x if it is large enough. The
// elements are undefined.
func resize[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	return x[:n]
}
