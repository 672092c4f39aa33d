// Package toy is the code that the tests of mutants change.
package toy

// Max returns the larger number.
func Max(a, b int) int {
	if a > b {
		return a
	}
	return b
}

// Sum returns 1 + 2 + … + n.
func Sum(n int) int {
	sum := 0
	for i := 1; i <= n; i++ {
		sum += i
	}
	return sum
}
