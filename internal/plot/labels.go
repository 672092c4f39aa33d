package plot

import (
	"math"
	"slices"
)

// box is an area of a chart.
type box struct{ x0, y0, x1, y1 float64 }

func (b box) overlaps(c box) bool { return b.x0 < c.x1 && c.x0 < b.x1 && b.y0 < c.y1 && c.y0 < b.y1 }

func (b box) within(c box) bool { return b.x0 >= c.x0 && b.x1 <= c.x1 && b.y0 >= c.y0 && b.y1 <= c.y1 }

// nearest returns the position in the box that is nearest to p.
func (b box) nearest(p position) position {
	return position{min(max(p.x, b.x0), b.x1), min(max(p.y, b.y0), b.y1)}
}

// around returns the square with centre p and sides of length 2·half.
func around(p position, half float64) box { return box{p.x - half, p.y - half, p.x + half, p.y + half} }

// spread moves labels apart, so that their distances are at least gap and all of them lie between
// lo and hi. Within these limits, it minimises the sum of the squared shifts. There must be room
// for all labels.
func spread(at []float64, gap, lo, hi float64) []float64 {
	order := make([]int, len(at))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case at[i] < at[j]:
			return -1
		case at[i] > at[j]:
			return 1
		}
		return 0
	})
	// A cluster is a run of touching labels. Each of them prefers some position of the first label,
	// and the first label is placed at the mean of these positions.
	type cluster struct{ first, n, sum float64 }
	limited := func(c cluster) cluster {
		c.first = min(max(c.sum/c.n, lo), hi-(c.n-1)*gap)
		return c
	}
	var clusters []cluster
	for _, i := range order {
		c := limited(cluster{n: 1, sum: at[i]})
		for len(clusters) > 0 {
			last := clusters[len(clusters)-1]
			if last.first+last.n*gap <= c.first {
				break
			}
			c = limited(cluster{n: last.n + c.n, sum: last.sum + c.sum - c.n*last.n*gap})
			clusters = clusters[:len(clusters)-1]
		}
		clusters = append(clusters, c)
	}
	placed := make([]float64, len(at))
	k := 0
	for _, c := range clusters {
		for j := range int(c.n) {
			placed[order[k]] = c.first + float64(j)*gap
			k++
		}
	}
	return placed
}

// obstacles are the areas that labels avoid.
type obstacles struct {
	area  box   // labels lie within it
	dots  []box // never covered
	texts []box // never covered
	lines []box // covered if necessary
}

// addLine adds small squares along the line through points.
func (o *obstacles) addLine(points []position) {
	const part = 6
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		n := math.Ceil(math.Hypot(b.x-a.x, b.y-a.y) / part)
		for k := range int(n) + 1 {
			t := float64(k) / max(n, 1)
			o.lines = append(o.lines, around(position{a.x + t*(b.x-a.x), a.y + t*(b.y-a.y)}, part/2))
		}
	}
}

// lineHeight is the distance between lines of text.
const lineHeight = 15

// place finds room for a label near a dot. It prefers places that are close to the dot, away from
// lines, and not cut off from the dot by other dots or texts.
func (o *obstacles) place(dot position, width float64) (label box, ok bool) {
	least := math.Inf(1)
	for _, distance := range []float64{9, 14, 20, 28, 38, 50, 64, 80, 98, 118} {
		for k := range 16 {
			sin, cos := math.Sincos(float64(k) * math.Pi / 8)
			x, y := dot.x+distance*cos, dot.y+distance*sin
			b := box{x - width/2, y - lineHeight/2, x + width/2, y + lineHeight/2}
			switch {
			case cos > 0.3:
				b.x0, b.x1 = x, x+width
			case cos < -0.3:
				b.x0, b.x1 = x-width, x
			}
			if !b.within(o.area) || overlapping(o.texts, b) > 0 || overlapping(o.dots, b) > 0 {
				continue
			}
			cost := distance + 6*float64(overlapping(o.lines, b)) + 60*float64(o.crossed(dot, b.nearest(dot)))
			if cost < least {
				label, least, ok = b, cost, true
			}
		}
	}
	return label, ok
}

func overlapping(boxes []box, b box) (n int) {
	for _, other := range boxes {
		if b.overlaps(other) {
			n++
		}
	}
	return n
}

// crossed measures how much of the way from a dot to its label leads across dots and texts: at
// each step of the way, it counts the dots and texts at that position.
func (o *obstacles) crossed(from, to position) (n int) {
	const step = 4
	length := math.Hypot(to.x-from.x, to.y-from.y)
	for at := 8.0; at < length-1; at += step {
		p := position{from.x + (to.x-from.x)*at/length, from.y + (to.y-from.y)*at/length}
		n += overlapping(o.dots, around(p, 1)) + overlapping(o.texts, around(p, 1))
	}
	return n
}

// drawDotLabels writes the labels of dots where there is room.
func (d *drawing) drawDotLabels() {
	for i := range d.Series {
		s := &d.Series[i]
		shift, _ := d.offset(i)
		for j := range s.Points {
			p := &s.Points[j]
			if s.Mark == Dots && p.Label != "" && d.X.shown(p.X) && d.Y.shown(p.Y) {
				d.label(d.at(p.X+shift, p.Y), p.Label, d.class(i, p))
			}
		}
	}
}

// label writes a label near a dot if there is room, with a line to the dot if the label is not
// close to it.
func (d *drawing) label(dot position, name, class string) bool {
	place, ok := d.avoid.place(dot, bold*textWidth(name, small)+4)
	if !ok {
		return false
	}
	d.avoid.texts = append(d.avoid.texts, place)
	to := place.nearest(dot)
	if length := math.Hypot(to.x-dot.x, to.y-dot.y); length > 11 {
		const radius = 5
		d.out.line("lead "+class, dot.x+(to.x-dot.x)*radius/length, dot.y+(to.y-dot.y)*radius/length, to.x, to.y)
	}
	d.out.text("name "+class, place.x0+2, place.y1-4, "start", name)
	return true
}

// mean returns the mean y of a line. If lines end at the same place, their names are in the order
// of their means.
func (d *drawing) mean(series int) float64 {
	sum, n := 0.0, 0.0
	for _, p := range d.Series[series].Points {
		if d.X.shown(p.X) && d.Y.shown(p.Y) {
			sum, n = sum+d.at(p.X, p.Y).y, n+1
		}
	}
	return sum / max(n, 1)
}

// drawEnds writes the names of lines at their ends, moved apart.
func (d *drawing) drawEnds() {
	var last []ending // names of the lines that end at the right
	var wishes []float64
	for _, e := range d.ends {
		e.at = d.at(e.at.x, e.at.y)
		far := e.early || d.area.x1-e.at.x > 60
		if !far || !d.label(e.at, e.name, d.class(e.series, nil)) {
			last, wishes = append(last, e), append(wishes, e.at.y+1e-3*d.mean(e.series))
		}
	}
	x := d.area.x1 + 12
	for i, y := range spread(wishes, lineHeight, d.area.y0+4, d.area.y1-2) {
		e := last[i]
		class := d.class(e.series, nil)
		if x-e.at.x > 16 || math.Abs(y-e.at.y) > 5 {
			d.out.line("lead "+class, e.at.x+4, e.at.y, x-3, y)
		}
		d.out.text("name "+class, x, y+4, "start", e.name)
	}
}

// drawAlong writes names along their lines.
func (d *drawing) drawAlong() {
	for i := range d.Series {
		s := &d.Series[i]
		if !s.Along || s.Name == "" || len(s.Points) < 2 {
			continue
		}
		first, last := &s.Points[0], &s.Points[len(s.Points)-1]
		if !d.X.shown(first.X) || !d.Y.shown(first.Y) || !d.X.shown(last.X) || !d.Y.shown(last.Y) {
			continue
		}
		d.writeAlong(d.at(first.X, first.Y), d.at(last.X, last.Y), s.Name, d.class(i, nil))
	}
}

// writeAlong writes a name above or below the line from a to b, where it covers no other text, no
// dots and the fewest lines.
func (d *drawing) writeAlong(a, b position, name, class string) {
	if b.x < a.x {
		a, b = b, a
	}
	length, width := math.Hypot(b.x-a.x, b.y-a.y), bold*textWidth(name, small)
	if length < width {
		return
	}
	dx, dy := (b.x-a.x)/length, (b.y-a.y)/length
	var start position
	var covered []box
	least := math.MaxInt
	for from := 8.0; from+width <= length; from += 8 {
		for _, off := range []float64{-5, 14} { // above, below
			at := position{a.x + from*dx - off*dy, a.y + from*dy + off*dx}
			boxes, lines := d.along(at, dx, dy, width)
			if boxes != nil && lines < least {
				start, covered, least = at, boxes, lines
			}
		}
	}
	if covered == nil {
		return
	}
	d.avoid.texts = append(d.avoid.texts, covered...)
	d.out.turned("name "+class, start.x, start.y, math.Atan2(dy, dx)*180/math.Pi, "start", name)
}

// along returns the boxes that a rotated text covers, and counts the squares of lines under the
// text. The boxes are nil if one of them is not free.
func (d *drawing) along(start position, dx, dy, width float64) (boxes []box, lines int) {
	const part = 6
	for at := 0.0; at <= width; at += part {
		middle := position{start.x + at*dx + 4*dy, start.y + at*dy - 4*dx}
		b := around(middle, 5)
		if !b.within(d.area) || overlapping(d.avoid.texts, b)+overlapping(d.avoid.dots, b) > 0 {
			return nil, 0
		}
		boxes = append(boxes, b)
		lines += overlapping(d.avoid.lines, around(middle, 3))
	}
	return boxes, lines
}
