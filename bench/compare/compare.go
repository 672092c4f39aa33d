package compare

import (
	"slices"
	"strings"

	"github.com/mquine/mquine/bench"
)

// Row is the comparison of one benchmark.
type Row struct {
	Name string
	// Unit is that of the metric that was compared.
	Unit string
	Judgement
}

// metricOf returns the metric that tells most about the code and least about the machine: for kernels
// on one thread, which report processor time, the share of the ceiling that was measured in between,
// or else that time, and for all others the time on the clock.
func metricOf(base, head []bench.Result) string {
	both := func(unit string) bool { return len(points(base, unit)) > 0 && len(points(head, unit)) > 0 }
	switch {
	case both("cpu-sec/op") && both("pct-peak"):
		return "pct-peak"
	case both("cpu-sec/op"):
		return "cpu-sec/op"
	}
	return "sec/op"
}

// Compare compares all benchmarks that base and head have, by the given metric or, if it is empty,
// by that which disturbances of the machine change least. Where more is better (a rate or a share),
// faster means more, and the ratio is turned: it is always that of times. control are results of the base measured again; there may be
// none. missing names the benchmarks that only one of base and head has.
func Compare(base, head, control []bench.Result, metric string, minEffect float64) (rows []Row, missing []string) {
	heads := byName(head)
	controls := byName(control)
	bases := byName(base)
	for _, name := range names(base) {
		unit := metric
		if unit == "" {
			unit = metricOf(bases[name], heads[name])
		}
		b, h := points(bases[name], unit), points(heads[name], unit)
		if len(b) == 0 || len(h) == 0 {
			if len(heads[name]) == 0 {
				missing = append(missing, name)
			}
			continue
		}
		j := Judge(b, h, points(controls[name], unit), minEffect)
		if moreIsBetter(unit) {
			for _, s := range []*struct{ c, lo, hi *float64 }{
				{&j.Base.Center, &j.Base.Lo, &j.Base.Hi}, {&j.Head.Center, &j.Head.Lo, &j.Head.Hi},
			} {
				*s.c, *s.lo, *s.hi = 1 / *s.c, 1 / *s.hi, 1 / *s.lo
			}
		}
		rows = append(rows, Row{name, unit, j})
	}
	for _, name := range names(head) {
		if len(bases[name]) == 0 {
			missing = append(missing, name)
		}
	}
	return rows, missing
}

// moreIsBetter tells whether a unit is a rate or a share of a limit.
func moreIsBetter(unit string) bool {
	return strings.HasSuffix(unit, "/s") || strings.HasPrefix(unit, "pct-")
}

// points returns the measurements in a unit, turned so that less is better.
func points(results []bench.Result, unit string) []Point {
	var list []Point
	for _, r := range results {
		v, ok := r.Values[unit]
		if !ok || !(v > 0) {
			continue
		}
		if moreIsBetter(unit) {
			v = 1 / v
		}
		list = append(list, Point{v, r.Round()})
	}
	return list
}

func byName(results []bench.Result) map[string][]bench.Result {
	m := map[string][]bench.Result{}
	for _, r := range results {
		m[r.Name] = append(m[r.Name], r)
	}
	return m
}

// names returns the names in the order of their first appearance.
func names(results []bench.Result) []string {
	var list []string
	seen := map[string]bool{}
	for _, r := range results {
		if !seen[r.Name] {
			seen[r.Name] = true
			list = append(list, r.Name)
		}
	}
	return slices.Clip(list)
}
