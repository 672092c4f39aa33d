package compare

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/perf/benchmath"
	"golang.org/x/perf/benchunit"

	"github.com/mquine/mquine/bench"
	"github.com/mquine/mquine/internal/text"
)

// Row is the comparison of one benchmark.
type Row struct {
	Name string
	// Unit is the unit of the compared metric.
	Unit string
	Judgement
}

// Compare compares the benchmarks that base and head have in common. If metric is empty, it
// compares each benchmark by bench.Headline. metric may be a unit as files contain it, such as
// ns/op. Ratios are ratios of times: ratios of rates and shares are inverted. control contains the
// results of a second measurement of the base and may be empty. If a benchmark has results on
// different numbers of threads in one set, its names end with the number.
//
// notes name the benchmarks and the results that the rows leave out, the benchmarks that the control
// lacks, and the benchmarks whose usual metric one set lacks.
func Compare(
	base, head, control []bench.Result, metric string, minEffect float64,
) (rows []Row, notes []Note) {
	_, metric = benchunit.Tidy(1, metric)
	byThreads(&base, &head, &control)
	heads := byName(head)
	controls := byName(control)
	bases := byName(base)
	var said, without noteList
	for _, name := range names(slices.Concat(base, head)) {
		if len(bases[name]) == 0 || len(heads[name]) == 0 {
			const tail = "results in only one of the two sets"
			said.add(name, true, " has "+tail, " have "+tail)
			continue
		}
		unit := metric
		if unit == "" {
			var usual string
			unit, usual = headline(name, bases[name], heads[name])
			if lacking := "head"; usual != unit {
				if !has(bases[name], usual) {
					lacking = "base"
				}
				tail := ": the table compares " + unit + ", because the " + lacking + " lacks " + usual
				said.add(name, false, tail, tail)
			}
		}
		b, ignoredB := points(bases[name], unit)
		h, ignoredH := points(heads[name], unit)
		c, ignoredC := points(controls[name], unit)
		if n := ignoredB + ignoredH + ignoredC; n > 0 {
			some, of := text.Plural(n, "result"), " whose "+unit+" is "+unusable(unit)
			said.add(name, false, ": ignored "+some+of, ": ignored "+some+" each"+of)
		}
		if len(b) == 0 || len(h) == 0 {
			switch inBase, inHead := len(b)+ignoredB > 0, len(h)+ignoredH > 0; {
			case inBase != inHead:
				tail := unit + " in only one of the two sets"
				said.add(name, true, " has "+tail, " have "+tail)
			case !inBase:
				without.add(name, true, " has no "+unit, " have no "+unit)
			}
			continue
		}
		if len(control) > 0 && len(c) == 0 {
			said.add(name, false, " has no "+unit+" in the control, so its verdict does not consider noise",
				" have no "+unit+" in the control, so their verdicts do not consider noise")
		}
		j := judge(b, h, c, minEffect)
		if all := rounds(b, h, c); j.Rounds > 0 && j.Rounds < all {
			tail := fmt.Sprintf(": the change ignores %d of %d rounds, which not all sets have", all-j.Rounds, all)
			said.add(name, false, tail, tail)
		}
		if bench.MoreIsBetter(unit) {
			for _, s := range []*benchmath.Summary{&j.Base, &j.Head} {
				s.Center = 1 / s.Center
				if !math.IsInf(s.Lo, 0) { // otherwise, too few results for an interval
					s.Lo, s.Hi = 1/s.Hi, 1/s.Lo
				}
			}
		}
		rows = append(rows, Row{name, unit, j})
	}
	return rows, slices.Concat(said, without)
}

// headline returns the metric by which the results of a benchmark are compared, and the metric by
// which the set with more metrics would be.
func headline(name string, base, head []bench.Result) (unit, usual string) {
	unit = bench.Headline(name, func(u string) bool { return has(base, u) && has(head, u) })
	usual = bench.Headline(name, func(u string) bool { return has(base, u) || has(head, u) })
	return unit, usual
}

// IsTime reports whether the ratios of a row with this unit are ratios of times.
func IsTime(unit string) bool {
	amount, _, _ := strings.Cut(unit, "/")
	of := amount[strings.LastIndexByte(amount, '-')+1:]
	return bench.MoreIsBetter(unit) || of == "sec" || of == "ms"
}

// unitsOf returns the sorted units in which base and head have results of the same benchmark.
func unitsOf(base, head []bench.Result) []string {
	var list []string
	heads := byName(head)
	for name, results := range byName(base) {
		for _, r := range results {
			for unit := range r.Values {
				if has(results, unit) && has(heads[name], unit) {
					list = append(list, unit)
				}
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// bothReport reports whether base and head have a benchmark in common with usable values of the metric.
func bothReport(base, head []bench.Result, metric string) bool {
	_, unit := benchunit.Tidy(1, metric)
	return slices.Contains(unitsOf(base, head), unit)
}

// NothingInCommon returns the error for sets of results that have no benchmark with usable values of the
// given metric in common. It suggests other metrics.
func NothingInCommon(base, head []bench.Result, metric string) error {
	units := unitsOf(base, head)
	if len(units) == 0 {
		return errors.New("nothing to compare: the two sets of results have no benchmark in common")
	}
	const most = 5
	others := ""
	if len(units) > most {
		others = ", or " + text.Count(len(units)-most, "other", "others")
		// Keep the most frequent ones.
		count := map[string]int{}
		for _, r := range base {
			for unit := range r.Values {
				count[unit]++
			}
		}
		slices.SortStableFunc(units, func(a, b string) int { return cmp.Compare(count[b], count[a]) })
		units = units[:most]
	}
	return fmt.Errorf("nothing to compare: the two sets of results have no benchmark with usable values of the "+
		"metric %s in common: choose --metric %s%s", cmp.Or(metric, "sec/op"), strings.Join(units, " or "), others)
}

// Difference is a property of the machine or of the run that is not the same for both sets.
type Difference struct{ Key, Base, Head string }

// Differences returns the properties in which base and head differ, apart from the code. A property
// that a set does not record does not differ.
func Differences(base, head []bench.Result) (list []Difference) {
	for _, key := range []string{"cpu", "tier", "features", "threads"} {
		b, h := recorded(base, key), recorded(head, key)
		if b != "" && h != "" && b != h {
			list = append(list, Difference{key, b, h})
		}
	}
	return list
}

// recorded returns the values of a property in a set of results.
func recorded(results []bench.Result, key string) string {
	var list []string
	for _, r := range results {
		value := r.Config[key]
		if key == "threads" {
			value = strconv.Itoa(r.Threads) // what a benchmark used, even with go test -cpu
		}
		if value != "" {
			list = append(list, value)
		}
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), " or ")
}

// byThreads adds the number of threads to the names of the benchmarks that have results on different
// numbers of threads in one set. Such results, as of go test -cpu 1,2, are not of the same work.
func byThreads(sets ...*[]bench.Result) {
	several := map[string]bool{}
	for _, set := range sets {
		previous := map[string]int{}
		for _, r := range *set {
			if n, seen := previous[r.Name]; seen && n != r.Threads {
				several[r.Name] = true
			}
			previous[r.Name] = r.Threads
		}
	}
	for _, set := range sets {
		*set = slices.Clone(*set)
		for i, r := range *set {
			if several[r.Name] {
				(*set)[i].Name = fmt.Sprintf("%s-%d", r.Name, r.Threads)
			}
		}
	}
}

// has reports whether a result has a usable value in the given unit.
func has(results []bench.Result, unit string) bool {
	list, _ := points(results, unit)
	return len(list) > 0
}

// points returns the measurements in the given unit, inverted if more is better, and the number of
// unusable ones, which it ignores.
func points(results []bench.Result, unit string) (list []point, ignored int) {
	for _, r := range results {
		v, ok := r.Values[unit]
		if !ok {
			continue
		}
		if !(v >= 0) || math.IsInf(v, 0) || v == 0 && bench.MoreIsBetter(unit) {
			ignored++
			continue
		}
		if bench.MoreIsBetter(unit) {
			v = 1 / v
		}
		list = append(list, point{v, r.Round()})
	}
	return list, ignored
}

// unusable describes the values that points ignores.
func unusable(unit string) string {
	if bench.MoreIsBetter(unit) {
		return "not positive and finite"
	}
	return "negative or not finite"
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
	return list
}
