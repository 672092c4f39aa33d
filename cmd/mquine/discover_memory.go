package main

import (
	"fmt"
	"unsafe"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// holdsAll reports whether the result needs all triples in memory at once.
func (d *discovery) holdsAll() bool {
	return d.wantsJSON() || d.out == "" && d.format != text.FormatCSV && d.format != text.FormatTSV
}

// checkMemory refuses, before the search, a result whose triples do not fit into memory. Go cannot
// recover from a failed allocation.
func (d *discovery) checkMemory(f *found) error {
	if !d.holdsAll() {
		return nil
	}
	reason, advice := "--format "+d.format.String(), "write the triples with --out FILE or --format tsv"
	if d.jsonFile != "" {
		reason, advice = "--json", "leave out --json, and "+advice
	}
	n := f.mostTriples()
	each := int64(unsafe.Sizeof(foundTriple{}))
	if f.Standardise {
		each += int64(unsafe.Sizeof(float64(0)))
	}
	if d.calibrationFile != "" {
		each += int64(unsafe.Sizeof(float64(0)))
	}
	return proc.CheckMemory(fmt.Sprintf("holding up to %s for %s", text.Plural(int(n), "triple"), reason),
		advice+", or ask for fewer",
		proc.Need{For: "triples", Bytes: n * each}, proc.Need{For: "text", Bytes: n * d.textBytes()})
}

// textBytes returns the number of bytes per triple that printing all triples needs at least. The
// numbers are about three quarters of the measured memory with labels of ten bytes.
func (d *discovery) textBytes() int64 {
	switch {
	case d.wantsJSON():
		return 400
	case d.format == text.FormatTable:
		return 640
	default:
		return 256
	}
}

// mostTriples returns the number of triples that the search finds if all of them are unknown. The
// known triples of a data set are few in comparison.
func (f *found) mostTriples() (n int64) {
	count := func(side kg.Side, relation int32) int64 {
		list, all := f.options.Among.Of(kg.Query{Side: side, Relation: relation})
		if all {
			return int64(f.graph.Entities.Len())
		}
		return int64(len(list))
	}
	side, k := f.Discovery.Side, int64(f.Discovery.K)
	for _, r := range f.Relations {
		of := count(side.Opposite(), r) * min(k, count(side, r))
		if f.Scope == rank.PerRelation {
			of = min(of, k)
		}
		n += of
	}
	if f.Scope == rank.PerGraph {
		n = min(n, k)
	}
	const most = 1 << 50 // no memory holds as many, and their bytes do not overflow
	return min(n, most)
}
