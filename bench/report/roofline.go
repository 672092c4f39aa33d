package report

import (
	"fmt"
	"math"
	"strings"
)

// frame is a plot with two logarithmic axes.
type frame struct {
	left, top, right, bottom float64 // of the area, in the units of the picture
	x0, x1, y0, y1           float64 // the values at its edges
}

func (f frame) x(v float64) float64 {
	return f.left + (f.right-f.left)*math.Log(v/f.x0)/math.Log(f.x1/f.x0)
}
func (f frame) y(v float64) float64 {
	return f.bottom - (f.bottom-f.top)*math.Log(v/f.y0)/math.Log(f.y1/f.y0)
}

// hues number the colours of the page's style sheet, by family.
var hues = map[string]int{"Panel": 1, "Pair": 2, "MatMulFMA": 3, "MatMul": 3, "Frobenius": 4, "Features": 5, "Query": 5, "Reference": 5}

// roofline draws the kernels of a tier under the ceilings of one thread: operations for each byte
// to the right, operations a second upwards. A kernel cannot be above the slope of the memory that
// its operands come from, nor above the line of its arithmetic. It is nil where there is nothing to
// draw.
func (c class) roofline(names []string, tier string, width float64) *picture {
	type kernel struct {
		x, y                float64
		family, name, label string
	}
	var points []kernel
	labelled := map[string]bool{}
	for _, name := range names {
		family, t, rival, shape := split(name)
		flops, bytes := c.best(name, "GFLOP/s"), c.best(name, "GB/s")
		if t != tier || rival != "" || flops == 0 || bytes == 0 || family == "Ceiling" {
			continue
		}
		kind := family
		for _, part := range strings.Fields(shape) {
			if v, ok := strings.CutPrefix(part, "compare="); ok {
				kind += " " + v
			}
			if v, ok := strings.CutPrefix(part, "model="); ok {
				kind += " " + v
			}
		}
		p := kernel{x: flops / bytes, y: flops, family: family, name: family + " " + shape + ": " + rate(flops, "GFLOP/s") + ", " + digits(flops/bytes) + " flop/B"}
		if !labelled[kind] {
			labelled[kind], p.label = true, kind
		}
		points = append(points, p)
	}
	type roof struct {
		name  string
		value float64
	}
	var flat, slopes []roof
	for _, of := range []struct{ key, name string }{{"int8", "int8"}, {"fma32", "float32 FMA"}, {"fma64", "float64 FMA"}} {
		name := "Ceiling/tier=" + tier + "/of=" + of.key + "/threads=1"
		if v := max(c.best(name, "GFLOP/s"), c.best(name, "GOP/s")); v > 0 {
			flat = append(flat, roof{of.name, v})
		}
	}
	for _, of := range []string{"l1", "l2", "l3", "dram"} {
		if v := c.best("Ceiling/tier="+tier+"/of=read-"+of+"/threads=1", "GB/s"); v > 0 {
			slopes = append(slopes, roof{strings.ToUpper(of), v})
		}
	}
	if len(points) == 0 || len(flat) == 0 {
		return nil
	}
	f := frame{x0: 1. / 16, x1: 16, y0: 1, y1: 16}
	for _, p := range points {
		for f.x0 > p.x/1.5 {
			f.x0 /= 2
		}
		for f.x1 < p.x*1.5 {
			f.x1 *= 2
		}
		for f.y0 > p.y/1.3 {
			f.y0 /= 2
		}
	}
	top := 0.0
	for _, r := range flat {
		top = max(top, r.value)
	}
	for f.y1 < top*1.4 {
		f.y1 *= 2
	}
	height := width * 0.62
	if width < 500 {
		height = width * 1.15
	}
	f.left, f.top, f.right, f.bottom = 44, 12, width-12, height-44

	s := newPicture(width, height, "Roofline of the kernels")
	for v := f.x0; v <= f.x1*1.001; v *= 2 {
		if step := int(math.Round(math.Log2(v))); width > 500 || step%2 == 0 {
			s.line("grid", f.x(v), f.top, f.x(v), f.bottom)
			s.text("tick", f.x(v), f.bottom+16, "middle", power(v))
		}
	}
	for v := f.y0; v <= f.y1*1.001; v *= 2 {
		s.line("grid", f.left, f.y(v), f.right, f.y(v))
		s.text("tick", f.left-6, f.y(v)+4, "end", power(v))
	}
	s.text("axis", (f.left+f.right)/2, height-8, "middle", "operations per byte (flop/B)")
	s.turned("axis", 11, (f.top+f.bottom)/2, -90, "middle", "GFLOP/s, one thread")
	var placed []box // what a label must not cover
	peak := 0.0
	for _, r := range flat {
		if r.name != "int8" {
			peak = max(peak, r.value)
		}
	}
	for _, r := range flat {
		class := "roof"
		if r.name == "int8" {
			class = "roof dashed"
		}
		from := f.x0
		if len(slopes) > 0 {
			from = max(f.x0, r.value/slopes[0].value)
		}
		s.line(class, f.x(from), f.y(r.value), f.right, f.y(r.value))
		s.text("rooflabel", f.right-2, f.y(r.value)-4, "end", r.name+" "+digits(r.value))
		placed = append(placed, box{f.right - 7*float64(len(r.name)+5), f.y(r.value) - 16, f.right, f.y(r.value) + 1})
	}
	for _, r := range slopes {
		from := max(f.x0, f.y0/r.value)
		to := min(f.x1, peak/r.value)
		s.line("roof", f.x(from), f.y(from*r.value), f.x(to), f.y(to*r.value))
		// The label stands on the slope, near its lower end.
		angle := -math.Atan2(f.y(f.y0)-f.y(2*f.y0), f.x(2*f.x0)-f.x(f.x0)) * 180 / math.Pi
		at := from * 1.3
		run := 85 * math.Cos(angle*math.Pi/180) // of the label, to the right
		for i := range 6 {                      // boxes along the slope
			x := f.x(at) + run*float64(i)/6
			y := f.y(at*r.value) + 85*math.Sin(angle*math.Pi/180)*float64(i)/6
			placed = append(placed, box{x - 6, y - 18, x + run/6, y})
		}
		s.turned("rooflabel", f.x(at)-4, f.y(at*r.value)-4, angle, "start", r.name+" "+digits(r.value)+" GB/s")
	}
	for _, p := range points {
		placed = append(placed, box{f.x(p.x) - 4, f.y(p.y) - 4, f.x(p.x) + 4, f.y(p.y) + 4})
	}
	for _, p := range points {
		s.circle(fmt.Sprintf("hue%d", hues[p.family]), f.x(p.x), f.y(p.y), 4, p.name)
	}
	for _, p := range points {
		if p.label == "" || width < 500 { // the legend must do
			continue
		}
		if b, anchor, ok := place(f, f.x(p.x), f.y(p.y), 6.3*float64(len(p.label)), placed); ok {
			placed = append(placed, b)
			x := b.x0
			if anchor == "end" {
				x = b.x1
			}
			s.text(fmt.Sprintf("label text%d", hues[p.family]), x, b.y1-3, anchor, p.label)
		}
	}
	return s
}

type box struct{ x0, y0, x1, y1 float64 }

// place finds room for a label near a point, where it covers no point and no other label.
func place(f frame, x, y, width float64, taken []box) (b box, anchor string, ok bool) {
	const height = 14
	for _, dy := range []float64{0, -14, 14, -28, 28, -42, 42} {
		for _, left := range []bool{false, true} {
			b, anchor = box{x + 7, y + dy - height/2, x + 7 + width, y + dy + height/2}, "start"
			if left {
				b, anchor = box{x - 7 - width, b.y0, x - 7, b.y1}, "end"
			}
			free := b.x0 > f.left && b.x1 < f.right && b.y0 > f.top && b.y1 < f.bottom
			for _, t := range taken {
				free = free && !(b.x0 < t.x1 && t.x0 < b.x1 && b.y0 < t.y1 && t.y0 < b.y1)
			}
			if free {
				return b, anchor, true
			}
		}
	}
	return b, anchor, false
}

// power writes a power of two.
func power(v float64) string {
	if v < 1 {
		return fmt.Sprintf("1/%.0f", 1/v)
	}
	return fmt.Sprintf("%.0f", v)
}
