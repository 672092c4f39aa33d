package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// section is the table of a family, with a row for each shape and a cell for each tier.
type section struct {
	Family, About string
	Tiers         []string
	Lines         []line
}

type line struct {
	Shape string
	Cells []cell
}

// cell is a tier's result.
type cell struct {
	Known bool
	Main  string  // the processor time of a training step, otherwise the rate or, without one, the time
	Share float64 // percent of the limit, or 0
	Of    string  // the limit
	Times string  // speed relative to the tier generic
	Older string  // the commit, unless it is the newest one
}

var tierOrder = []string{"avx512", "avx2", generic, ""}

// generic is the tier without assembly, with which the others are compared.
const generic = "generic"

// section returns the table of a family.
func (c class) section(names []string, family, about string) section {
	s := section{Family: family, About: about}
	tiers := map[string]bool{}
	shapes := map[string]map[string]string{} // names by shape and tier
	var order []string
	for _, name := range names {
		f, tier, rival, shape := split(name)
		if f != family || rival != "" {
			continue
		}
		if shapes[shape] == nil {
			shapes[shape] = map[string]string{}
			order = append(order, shape)
		}
		shapes[shape][tier] = name
		tiers[tier] = true
	}
	for _, t := range tierOrder {
		if tiers[t] {
			s.Tiers = append(s.Tiers, t)
		}
	}
	for _, shape := range order {
		l := line{Shape: describe(shape)}
		for _, t := range s.Tiers {
			l.Cells = append(l.Cells, c.cell(shapes[shape][t], shapes[shape][generic]))
		}
		s.Lines = append(s.Lines, l)
	}
	return s
}

// time returns the newest time of a benchmark in seconds: processor time if it was measured, and
// wall-clock time otherwise.
func (c class) time(name string) float64 {
	return cmp.Or(c.best(name, "cpu-sec/op"), c.best(name, "sec/op"))
}

// mainRates are the units to show, the most informative first. The last one is a ratio of times.
var mainRates = []string{"queries/s", "scores/s", "entities/s", "GFLOP/s", "GOP/s", "triples/s", "GB/s", "auto/best"}

// stepTime is the unit of the processor time of a training step.
const stepTime = "cpu-ms/step"

// cell returns a benchmark's cell. reference is the name of the same benchmark on the tier generic,
// or "".
func (c class) cell(name, reference string) (out cell) {
	if c.time(name) == 0 {
		return out
	}
	out.Known = true
	_, from := c.latest(name, "sec/op")
	if from != nil && from != c.newest() {
		out.Older = short(from.id)
	}
	// The rates of training steps are of wall-clock time, but their shares are of processor time.
	for _, unit := range append([]string{stepTime}, mainRates...) {
		if v := c.best(name, unit); v > 0 {
			out.Main = rate(v, unit)
			break
		}
	}
	if out.Main == "" {
		out.Main = seconds(c.time(name))
	}
	for _, limit := range []struct{ unit, of string }{
		{"pct-peak", "of peak"}, {"pct-bandwidth", "of bandwidth"}, {"pct-fma", "of float32 FMA"},
	} {
		if v := c.best(name, limit.unit); v > out.Share {
			out.Share, out.Of = v, limit.of
		}
	}
	const notable = 1.2
	if times := c.speedup(name, reference); times >= notable {
		out.Times = fmt.Sprintf("%s× generic", strings.TrimSuffix(digits(times), ".0"))
	}
	return out
}

// speedup returns the speed of a benchmark relative to another one, or 0 if it is unknown. Tiers
// have panels of different sizes, so speedup compares rates if there are any, and times otherwise.
func (c class) speedup(name, reference string) float64 {
	if name == reference || c.time(reference) == 0 {
		return 0
	}
	for _, unit := range mainRates {
		if v, other := c.best(name, unit), c.best(reference, unit); v > 0 && other > 0 {
			return v / other
		}
	}
	return c.time(reference) / c.time(name)
}

// ceiling is a row in the table of the machine's limits.
type ceiling struct {
	Tier, Of string
	One, All string
}

var ceilingNames = map[string]string{
	"fma32":               "float32 multiply-add, fused",
	"l1":                  "L1 distance, float32",
	"group-norm":          "group norm, float32",
	"group-norm-4":        "group norm of 4 coordinates, float32",
	"group-norm-20":       "group norm of 20 coordinates, float32",
	"phase":               "phase, float32",
	"hake":                "HAKE, float32",
	"boxe":                "BoxE, float32",
	"expressive":          "ExpressivE, float32",
	"fma64":               "float64 multiply-add, fused",
	"muladd64":            "float64 multiply, then add",
	"int8":                "int8 multiply-add",
	"int8-l1":             "L1 distance, int8",
	"int8-phase":          "phase, int8",
	"int16-dot":           "int16 multiply-add",
	"int16-group-norm":    "group norm, int16",
	"int16-group-norm-4":  "group norm of 4 coordinates, int16",
	"int16-group-norm-20": "group norm of 20 coordinates, int16",
	"int8-tiles":          "int8 multiply-add, AMX",
	"bfloat16":            "bfloat16 multiply-add",
	"bfloat16-tiles":      "bfloat16 multiply-add, AMX",
	"read-l1":             "reading the L1 cache",
	"read-l2":             "reading the L2 cache",
	"read-l3":             "reading the L3 cache",
	"read-dram":           "reading memory",
}

func (c class) ceilings(names []string) []ceiling {
	var list []ceiling
	at := map[string]int{}
	for _, name := range names {
		family, tier, _, shape := split(name)
		if family != "Ceiling" {
			continue
		}
		of, threads, _ := strings.Cut(strings.TrimPrefix(shape, "of="), " threads=")
		shown := ""
		for _, unit := range operations {
			if v := c.best(name, unit); v > 0 {
				shown = rate(v, unit)
			}
		}
		key := tier + "/" + of
		i, ok := at[key]
		if !ok {
			i = len(list)
			at[key] = i
			list = append(list, ceiling{Tier: tier, Of: cmp.Or(ceilingNames[of], of)})
		}
		if threads == "1" {
			list[i].One = shown
		} else {
			list[i].All = shown
		}
	}
	slices.SortStableFunc(list, func(a, b ceiling) int {
		return cmp.Compare(slices.Index(tierOrder, a.Tier), slices.Index(tierOrder, b.Tier))
	})
	return list
}
