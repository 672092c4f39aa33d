package text

import (
	"strings"

	"github.com/dustin/go-humanize"
)

// Comma returns n with a comma between groups of three digits, as in 14,541.
func Comma[N ~int | ~int64 | ~uint64](n N) string { return humanize.Comma(int64(n)) }

// Count returns n followed by one or many, as in "1 entity occurs" and "2 entities occur".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Comma(n) + " " + many
}

// Plural is like Count for a noun with a regular plural: "1 query", "2 queries", "2 triples".
func Plural(n int, one string) string {
	if stem, ok := strings.CutSuffix(one, "y"); ok {
		return Count(n, one, stem+"ies")
	}
	return Count(n, one, one+"s")
}
