package compare

import (
	"slices"
	"strings"

	"golang.org/x/perf/benchmath"

	"github.com/mquine/mquine/bench"
)

// Row is the comparison of one benchmark.
type Row struct {
	Name string
	// Unit is the unit of the compared metric.
	Unit string
	Judgement
}

// metricOf returns the metric that disturbances of the machine change least. Kernels on one thread
// report processor time; for them, the metric is the share of the ceiling, or the processor time if
// there is no share. For other benchmarks, the metric is wall-clock time.
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

// Compare compares the benchmarks that base and head have in common. If metric is empty, it
// compares each benchmark by the metric that disturbances of the machine change least. Ratios are
// ratios of times: ratios of rates and shares are inverted. control contains the results of a
// second measurement of the base and may be empty. missing names the benchmarks that only one of
// base and head has.
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
			for _, s := range []*benchmath.Summary{&j.Base, &j.Head} {
				s.Center, s.Lo, s.Hi = 1/s.Center, 1/s.Hi, 1/s.Lo
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

// moreIsBetter reports whether a unit is a rate or a share of a limit.
func moreIsBetter(unit string) bool {
	return strings.HasSuffix(unit, "/s") || strings.HasPrefix(unit, "pct-")
}

// points returns the measurements in the given unit, inverted if more is better.
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

// names returns the names in order of first appearance.
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
