package plot

import (
	"fmt"
	"math"
)

func (d *drawing) drawSeries(i int) {
	s := &d.Series[i]
	back := ""
	if d.hue(i) == Soft {
		back = " back"
	}
	fmt.Fprintf(&d.out, "\n"+`<g class="%s%s">`, d.class(i, nil), back)
	switch s.Mark {
	case Line:
		d.drawLine(s)
	case Dots:
		d.drawDots(i)
	case Bars:
		d.drawBars(i)
	}
	d.out.WriteString("</g>")
}

// drawLine draws a line, in parts if points are missing, with a band for its intervals.
func (d *drawing) drawLine(s *Series) {
	const mostDots, mostHits = 12, 300
	class := "line"
	if s.Dashed {
		class += " dashed"
	}
	var points []position // points of the current part
	var upper, lower []position
	flush := func() {
		if len(upper) > 1 {
			for i := len(lower) - 1; i >= 0; i-- {
				upper = append(upper, lower[i])
			}
			d.out.path("band", upper, true)
		}
		if len(points) > 1 {
			d.out.path(class, points, false)
			d.avoid.addLine(points)
		}
		points, upper, lower = nil, nil, nil
	}
	whole, single := 0, true
	for j := range s.Points {
		p := &s.Points[j]
		if !d.X.shown(p.X) || !d.Y.shown(p.Y) {
			flush()
			continue
		}
		whole++
		at := d.at(p.X, p.Y)
		if n := len(points); n > 0 && j < len(s.Points)-1 && near(points[n-1], at) {
			continue
		}
		points = append(points, at)
		single = single && whole == 1
		if p.interval(&d.Y) {
			upper, lower = append(upper, d.at(p.X, p.Hi)), append(lower, d.at(p.X, p.Lo))
		}
	}
	flush()
	if whole > mostHits || s.Along {
		return
	}
	for j := range s.Points {
		p := &s.Points[j]
		if !d.X.shown(p.X) || !d.Y.shown(p.Y) {
			continue
		}
		at := d.at(p.X, p.Y)
		if single || whole <= mostDots && s.Mark == Line {
			d.out.circle("dot", at.x, at.y, 3.5, d.hover(s, p))
		} else {
			d.out.circle("hit", at.x, at.y, 5, d.hover(s, p))
		}
	}
}

// near reports whether two positions cannot be told apart.
func near(a, b position) bool { return math.Abs(a.x-b.x) < 0.5 && math.Abs(a.y-b.y) < 0.5 }

// offset returns the shift of a series within the categories, and the width of its marks. Both are
// in units of the distance between categories.
func (d *drawing) offset(series int) (shift, width float64) {
	n, slot := d.slots(), 0
	if len(d.X.Categories) == 0 {
		return 0, 0
	}
	for i := range series {
		if m := d.Series[i].Mark; m == Bars || m == Dots {
			slot++
		}
	}
	const filled, widest = 0.76, 48
	each, pixels := filled/float64(n), math.Abs(d.x.to-d.x.from)/float64(len(d.X.Categories))
	name := 0.0
	if d.stacked {
		name = lineHeight / pixels
	}
	each = min(each*(1-name), widest/pixels)
	return (float64(slot)-float64(n-1)/2)*each + name/2, each
}

func (d *drawing) drawDots(i int) {
	s := &d.Series[i]
	shift, _ := d.offset(i)
	for j := range s.Points {
		p := &s.Points[j]
		if !d.X.shown(p.X) || !d.Y.shown(p.Y) {
			continue
		}
		at := d.at(p.X+shift, p.Y)
		if p.interval(&d.Y) {
			d.whisker(p, p.X+shift)
		}
		class := "dot"
		if p.Hue != 0 {
			class += " " + d.class(i, p)
		}
		d.out.circle(class, at.x, at.y, 4.5, d.hover(s, p))
		d.avoid.dots = append(d.avoid.dots, around(at, 5))
	}
}

// whisker draws the interval of a point.
func (d *drawing) whisker(p *Point, x float64) {
	lo, hi := d.at(x, p.Lo), d.at(x, p.Hi)
	d.out.path("range", []position{lo, hi}, false)
	for _, end := range []position{lo, hi} {
		if d.Horizontal {
			d.out.path("range", []position{{end.x, end.y - 3}, {end.x, end.y + 3}}, false)
		} else {
			d.out.path("range", []position{{end.x - 3, end.y}, {end.x + 3, end.y}}, false)
		}
	}
}

func (d *drawing) drawBars(i int) {
	if len(d.X.Categories) == 0 {
		return
	}
	s := &d.Series[i]
	shift, width := d.offset(i)
	base := d.y.lo
	if !d.y.log {
		base = min(max(0, d.y.lo), d.y.hi)
	}
	for j := range s.Points {
		p := &s.Points[j]
		if !d.X.shown(p.X) || !d.Y.shown(p.Y) {
			continue
		}
		class := "bar"
		if p.Hue != 0 {
			class += " " + d.class(i, p)
		}
		a, b := d.at(p.X+shift-width/2, base), d.at(p.X+shift+width/2, p.Y)
		const between = 0.5
		if d.Horizontal {
			d.out.rect(class, a.x, a.y+between, b.x, b.y-between, d.hover(s, p))
		} else {
			d.out.rect(class, a.x+between, a.y, b.x-between, b.y, d.hover(s, p))
		}
		end := max(b.x, a.x)
		if p.interval(&d.Y) {
			d.whisker(p, p.X+shift)
			end = max(end, d.at(p.X, p.Hi).x)
		}
		if p.Label != "" && d.Horizontal {
			d.out.text("key", end+6, (a.y+b.y)/2+4, "start", shortened(p.Label, small, d.width-end-8))
		}
	}
}
