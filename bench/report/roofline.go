package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/plot"
)

// kernelPoint is a kernel in the roofline.
type kernelPoint struct {
	x, y  float64 // operations per byte, operations per second in units of 1e9
	hue   int
	kind  string // such as "Panel dot": one kernel of each kind has a label
	hover string
}

// roof is a ceiling.
type roof struct {
	name, unit string
	value      float64
}

// operations lists the units of kernel rates: operations or bytes per second.
var operations = []string{"GFLOP/s", "GOP/s", "GB/s"}

// roofline draws a tier's kernels: rates over operations per byte. A kernel cannot lie above the
// slope of the memory that holds its operands, nor above the level of its arithmetic. The result is
// empty if there is nothing to draw.
func (c class) roofline(names []string, tier string) template.HTML {
	kernels := c.kernelPoints(names, tier)
	levels, slopes := c.roofs(tier, kernels)
	if len(kernels) == 0 || len(levels) == 0 {
		return ""
	}
	left, right := math.Inf(1), 0.0
	bottom, top := math.Inf(1), 0.0
	for _, p := range kernels {
		left, right, bottom = min(left, p.x/1.5), max(right, p.x*2), min(bottom, p.y/2)
	}
	for _, l := range levels {
		top = max(top, l.value)
	}
	for _, s := range slopes { // show where the slope of each memory ends
		left = min(left, top/s.value/2)
	}
	chart := plot.Chart{
		Width: 800, Height: 500, Description: "Roofline of the kernels",
		X: plot.Axis{Label: "operations per byte", Log: true},
		Y: plot.Axis{Label: "GFLOP/s, or GOP/s for int8 and int16", Log: true},
	}
	soft := func(r roof, points ...plot.Point) {
		name := r.name + " " + value(r.value, r.unit)
		chart.Series = append(chart.Series, plot.Series{Name: name, Hue: plot.Soft, Along: true, Points: points})
	}
	for _, s := range slopes {
		from, to := max(left, bottom/s.value), min(right, top/s.value)
		if from < to {
			soft(s, plot.Point{X: from, Y: from * s.value}, plot.Point{X: to, Y: to * s.value})
		}
	}
	for _, l := range levels {
		from := left
		if len(slopes) > 0 {
			from = max(left, l.value/slopes[0].value)
		}
		soft(l, plot.Point{X: min(from, right), Y: l.value}, plot.Point{X: right, Y: l.value})
	}
	chart.Series = append(chart.Series, dots(kernels)...)
	return plot.HTML(chart)
}

// dots returns a series for each hue, with a label for one kernel of each kind.
func dots(kernels []kernelPoint) (list []plot.Series) {
	labelled := map[string]bool{}
	families := map[int][]string{} // by hue
	points := map[int][]plot.Point{}
	for _, k := range kernels {
		p := plot.Point{X: k.x, Y: k.y, Hover: k.hover}
		if !labelled[k.kind] {
			labelled[k.kind], p.Label = true, k.kind
		}
		family, _, _ := strings.Cut(k.kind, " ")
		if k.hue == integers {
			family += " int8, int16"
		}
		if !slices.Contains(families[k.hue], family) {
			families[k.hue] = append(families[k.hue], family)
		}
		points[k.hue] = append(points[k.hue], p)
	}
	for hue := 1; hue <= 6; hue++ {
		if points[hue] != nil {
			list = append(list, plot.Series{
				Name: strings.Join(families[hue], ", "), Mark: plot.Dots, Hue: hue, Points: points[hue],
			})
		}
	}
	return list
}

// kernelPoints lists the kernels of a tier that have a rate and a bandwidth.
func (c class) kernelPoints(names []string, tier string) (points []kernelPoint) {
	for _, name := range names {
		family, t, rival, shape := split(name)
		bytes := c.best(name, "GB/s")
		if t != tier || rival != "" || bytes == 0 || family == "Ceiling" {
			continue
		}
		for _, unit := range operations[:2] {
			rateOf := c.best(name, unit)
			if rateOf == 0 {
				continue
			}
			p := kernelPoint{x: rateOf / bytes, y: rateOf, hue: hueOf(family), kind: family}
			for _, pair := range strings.Fields(shape) {
				if key, value, _ := strings.Cut(pair, "="); key == "compare" || key == "model" || key == "of" {
					p.kind += " " + value
				}
			}
			if unit == "GOP/s" && p.hue == hueOf("Panel") {
				p.hue = integers
			}
			p.hover = fmt.Sprintf("%s, %s: %s, %s op/B", family, describe(shape), value(rateOf, unit), digits(p.x))
			points = append(points, p)
		}
	}
	return points
}

// hueOf returns the hue of a family's kernels.
func hueOf(family string) int {
	for _, f := range families {
		if f.name == family && f.hue > 0 {
			return f.hue
		}
	}
	return 5
}

// roofs returns a tier's ceilings on one thread. It omits the ceilings of matrix tiles unless a
// kernel comes close to them.
func (c class) roofs(tier string, kernels []kernelPoint) (levels, slopes []roof) {
	highest := 0.0
	for _, k := range kernels {
		highest = max(highest, k.y)
	}
	best := func(of string) (r roof) {
		for _, unit := range operations {
			if v := c.best("Ceiling/tier="+tier+"/of="+of+"/threads=1", unit); v > r.value {
				r = roof{value: v, unit: unit}
			}
		}
		return r
	}
	for _, of := range []struct{ key, name string }{
		{"int8-tiles", "int8 tiles"}, {"bfloat16-tiles", "bfloat16 tiles"},
		{"int8", "int8"}, {"bfloat16", "bfloat16"}, {"fma32", "float32 FMA"}, {"fma64", "float64 FMA"},
	} {
		r := best(of.key)
		if r.value == 0 || strings.HasSuffix(of.key, "tiles") && highest < r.value/8 {
			continue
		}
		r.name = of.name
		levels = append(levels, r)
	}
	for _, memory := range []string{"l1", "l2", "l3", "dram"} {
		if r := best("read-" + memory); r.value > 0 {
			r.name = strings.ToUpper(memory)
			slopes = append(slopes, r)
		}
	}
	return levels, slopes
}
