package report

import (
	"fmt"
	"math"
	"strings"
)

// frame is a plot with two logarithmic axes.
type frame struct {
	left, top, right, bottom float64 // of the plot area, in units of the picture
	x0, x1, y0, y1           float64 // values at its edges
}

func (f frame) x(v float64) float64 {
	return f.left + (f.right-f.left)*math.Log(v/f.x0)/math.Log(f.x1/f.x0)
}

func (f frame) y(v float64) float64 {
	return f.bottom - (f.bottom-f.top)*math.Log(v/f.y0)/math.Log(f.y1/f.y0)
}

// hues maps each family to the number of its colour in the page's style sheet.
var hues = map[string]int{
	"Panel": 1, "Pair": 2, "MatMulFMA": 3, "MatMul": 3, "Frobenius": 4, "Features": 5, "Query": 5, "Reference": 5,
}

// narrow is the width below which a roofline has fewer ticks and no labels for kernels.
const narrow = 500

// roofline is the plot of a tier's kernels under the ceilings of one thread: GFLOP/s over
// operations per byte.
type roofline struct {
	kernels []kernelPoint
	levels  []roof // rates of operations on registers, in GFLOP/s
	slopes  []roof // bandwidths, in GB/s, fastest first

	frame frame
	pic   *picture
	taken []box // areas that labels must not cover
}

// kernelPoint is a kernel in the plot.
type kernelPoint struct {
	x, y   float64 // operations per byte, GFLOP/s
	family string
	name   string // appears when the pointer is over the point
	label  string // only for the first kernel of a kind
}

// roof is a ceiling.
type roof struct {
	name  string
	value float64
}

// roofline draws a tier's kernels. A kernel cannot lie above the slope of the memory that holds its
// operands, nor above the level of its arithmetic. The picture is nil if there is nothing to draw.
func (c class) roofline(names []string, tier string, width float64) *picture {
	r := roofline{kernels: c.kernelPoints(names, tier)}
	r.levels, r.slopes = c.roofs(tier)
	if len(r.kernels) == 0 || len(r.levels) == 0 {
		return nil
	}
	height := width * 0.62
	if width < narrow {
		height = width * 1.15
	}
	r.pic = newPicture(width, height, "Roofline of the kernels")
	r.setFrame(width, height)
	r.drawGrid(width, height)
	r.drawLevels()
	r.drawSlopes()
	r.drawKernels(width > narrow)
	return r.pic
}

// kernelPoints lists the kernels of a tier that have a rate and a bandwidth.
func (c class) kernelPoints(names []string, tier string) (points []kernelPoint) {
	labelled := map[string]bool{}
	for _, name := range names {
		family, t, rival, shape := split(name)
		flops, bytes := c.best(name, "GFLOP/s"), c.best(name, "GB/s")
		if t != tier || rival != "" || flops == 0 || bytes == 0 || family == "Ceiling" {
			continue
		}
		kind := family
		for _, part := range strings.Fields(shape) {
			if key, value, _ := strings.Cut(part, "="); key == "compare" || key == "model" {
				kind += " " + value
			}
		}
		p := kernelPoint{x: flops / bytes, y: flops, family: family}
		p.name = fmt.Sprintf("%s %s: %s, %s flop/B", family, shape, rate(flops, "GFLOP/s"), digits(p.x))
		if !labelled[kind] {
			labelled[kind], p.label = true, kind
		}
		points = append(points, p)
	}
	return points
}

// int8Roof is the name of the dashed level, whose operations are not floating-point operations.
const int8Roof = "int8"

// roofs returns a tier's ceilings on one thread.
func (c class) roofs(tier string) (levels, slopes []roof) {
	best := func(of string, units ...string) (value float64) {
		for _, unit := range units {
			value = max(value, c.best("Ceiling/tier="+tier+"/of="+of+"/threads=1", unit))
		}
		return value
	}
	for _, r := range []struct{ of, name string }{
		{"int8", int8Roof}, {"fma32", "float32 FMA"}, {"fma64", "float64 FMA"},
	} {
		if v := best(r.of, "GFLOP/s", "GOP/s"); v > 0 {
			levels = append(levels, roof{r.name, v})
		}
	}
	for _, memory := range []string{"l1", "l2", "l3", "dram"} {
		if v := best("read-"+memory, "GB/s"); v > 0 {
			slopes = append(slopes, roof{strings.ToUpper(memory), v})
		}
	}
	return levels, slopes
}

// setFrame chooses axes that contain all kernels and levels and end at powers of two.
func (r *roofline) setFrame(width, height float64) {
	f := frame{left: 44, top: 12, right: width - 12, bottom: height - 44, x0: 1. / 16, x1: 16, y0: 1, y1: 16}
	for _, p := range r.kernels {
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
	for _, l := range r.levels {
		for f.y1 < l.value*1.4 {
			f.y1 *= 2
		}
	}
	r.frame = f
}

func (r *roofline) drawGrid(width, height float64) {
	f, s := r.frame, r.pic
	for v := f.x0; v <= f.x1*1.001; v *= 2 {
		if step := int(math.Round(math.Log2(v))); width > narrow || step%2 == 0 {
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
}

// drawLevels draws the rates on registers, to the right of the steepest slope.
func (r *roofline) drawLevels() {
	f := r.frame
	for _, l := range r.levels {
		class := "roof"
		if l.name == int8Roof {
			class = "roof dashed"
		}
		from := f.x0
		if len(r.slopes) > 0 {
			from = max(f.x0, l.value/r.slopes[0].value)
		}
		y := f.y(l.value)
		r.pic.line(class, f.x(from), y, f.right, y)
		r.pic.text("rooflabel", f.right-2, y-4, "end", l.name+" "+digits(l.value))
		r.taken = append(r.taken, box{f.right - 7*float64(len(l.name)+5), y - 16, f.right, y + 1})
	}
}

// drawSlopes draws the bandwidths up to the highest floating-point level, with a label near the
// lower end of each slope.
func (r *roofline) drawSlopes() {
	f := r.frame
	peak := 0.0
	for _, l := range r.levels {
		if l.name != int8Roof {
			peak = max(peak, l.value)
		}
	}
	radians := -math.Atan2(f.y(f.y0)-f.y(2*f.y0), f.x(2*f.x0)-f.x(f.x0))
	angle := radians * 180 / math.Pi
	for _, s := range r.slopes {
		from := max(f.x0, f.y0/s.value)
		to := min(f.x1, peak/s.value)
		r.pic.line("roof", f.x(from), f.y(from*s.value), f.x(to), f.y(to*s.value))
		at := from * 1.3
		x, y := f.x(at), f.y(at*s.value)
		const length, boxes = 85, 6 // the length of the label, and the number of boxes along the slope that cover it
		run := length * math.Cos(angle*math.Pi/180)
		for i := range boxes {
			part := float64(i) / boxes
			bx, by := x+run*part, y+length*math.Sin(angle*math.Pi/180)*part
			r.taken = append(r.taken, box{bx - 6, by - 18, bx + run/boxes, by})
		}
		r.pic.turned("rooflabel", x-4, y-4, angle, "start", s.name+" "+digits(s.value)+" GB/s")
	}
}

// drawKernels draws the kernels, and the labels for which there is room.
func (r *roofline) drawKernels(labels bool) {
	f := r.frame
	for _, p := range r.kernels {
		x, y := f.x(p.x), f.y(p.y)
		r.taken = append(r.taken, box{x - 4, y - 4, x + 4, y + 4})
		r.pic.circle(fmt.Sprintf("hue%d", hues[p.family]), x, y, 4, p.name)
	}
	if !labels { // the legend explains the colours
		return
	}
	for _, p := range r.kernels {
		if p.label == "" {
			continue
		}
		if b, anchor, ok := r.place(f.x(p.x), f.y(p.y), 6.3*float64(len(p.label))); ok {
			r.taken = append(r.taken, b)
			x := b.x0
			if anchor == "end" {
				x = b.x1
			}
			r.pic.text(fmt.Sprintf("label text%d", hues[p.family]), x, b.y1-3, anchor, p.label)
		}
	}
}

type box struct{ x0, y0, x1, y1 float64 }

// place finds room for a label of the given width near a point.
func (r *roofline) place(x, y, width float64) (b box, anchor string, ok bool) {
	const height = 14
	f := r.frame
	for _, dy := range []float64{0, -14, 14, -28, 28, -42, 42} {
		for _, left := range []bool{false, true} {
			b, anchor = box{x + 7, y + dy - height/2, x + 7 + width, y + dy + height/2}, "start"
			if left {
				b, anchor = box{x - 7 - width, b.y0, x - 7, b.y1}, "end"
			}
			free := b.x0 > f.left && b.x1 < f.right && b.y0 > f.top && b.y1 < f.bottom
			for _, t := range r.taken {
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
