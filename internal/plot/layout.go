package plot

import (
	"math"
	"slices"
	"strings"
)

// ending is a line's end with its name.
type ending struct {
	series int
	at     position
	name   string
	early  bool // another line ends further to the right
}

// key is an entry of the legend.
type key struct {
	series int
	name   string
	x      float64
}

// layOut divides the chart into its parts.
func (d *drawing) layOut() {
	const narrowest = 40 // smallest width of the area
	ex, ey := d.extents()
	if lines := len(wrapped(d.Title, titleSize, d.width-2*outer)); lines > 0 {
		d.header = outer + float64(lines)*20
	} else {
		d.header = outer
	}
	d.height = d.Height
	if d.height == 0 {
		d.height = min(max(0.55*d.width, 240), 420)
	}
	below := outer + float64(len(d.note()))*lineHeight + lineHeight + gap // ticks
	if d.valueAxis(true).Label != "" {
		below += lineHeight
	}
	d.folded = d.fold()
	if d.folded {
		below += lineHeight
	}
	d.stacked = d.Horizontal && d.width < 500 && d.categoryWidth() > 0.25*d.width
	// Names need room at the right or above.
	d.findEnds()
	right := d.rightOfLines()
	if d.ends == nil {
		d.layLegend()
	}
	above := d.header + float64(len(d.legend))*18
	if d.valueAxis(false).Label != "" {
		above += lineHeight
	}
	above += 10
	if d.Horizontal && d.Y.labelled() {
		above += lineHeight - 4
	}
	if d.Horizontal && d.Height == 0 {
		d.height = above + below + d.rowHeight()*float64(max(len(d.X.Categories), 1))
	}
	d.area = box{y0: above, y1: max(d.height-below, above+narrowest)}
	d.height = max(d.height, d.area.y1+below)

	if d.Horizontal {
		left := outer + d.categoryWidth() + gap
		if d.stacked {
			left = outer
		}
		right = max(right, d.barLabels())
		d.area.x0, d.area.x1 = left, max(d.width-right, left+narrowest)
		d.x = d.X.newScale(ex, 0, false)
		d.x.from, d.x.to = d.area.y0, d.area.y1
		d.y = d.Y.newScale(ey, d.ticksAcross(&d.Y), true)
		d.y.from, d.y.to = d.area.x0, d.area.x1
	} else {
		tall := d.area.y1 - d.area.y0
		d.y = d.Y.newScale(ey, int(max(tall/36, 2)), true)
		d.y.from, d.y.to = d.area.y1, d.area.y0
		widest := 0.0
		for _, t := range d.Y.labels(&d.y) {
			widest = max(widest, textWidth(t, small))
		}
		left := outer + widest + gap
		d.area.x0, d.area.x1 = left, max(d.width-right, left+narrowest)
		d.x = d.X.newScale(ex, d.ticksAcross(&d.X), d.hasDots())
		d.x.from, d.x.to = d.area.x0, d.area.x1
	}
	d.xTexts, d.yTexts = d.X.labels(&d.x), d.Y.labels(&d.y)
	d.avoid.area = box{d.area.x0 + 2, d.area.y0 + 2, d.width - 2, d.area.y1 - 2}
}

// labelled reports whether a rule of the axis has a label.
func (a *Axis) labelled() bool {
	return slices.ContainsFunc(a.Rules, func(r Rule) bool { return r.Label != "" })
}

// valueAxis returns the axis below the area if below is true, and otherwise the axis beside the
// area.
func (d *drawing) valueAxis(below bool) *Axis {
	if below == d.Horizontal {
		return &d.Y
	}
	return &d.X
}

// hasDots reports whether there are dots, which need room around them.
func (d *drawing) hasDots() bool {
	for _, s := range d.Series {
		if s.Mark == Dots {
			return true
		}
	}
	return false
}

// ticksAcross returns the number of ticks for which an axis from left to right has room.
func (d *drawing) ticksAcross(a *Axis) int {
	widest := 34.0
	if a.Format != nil || len(a.Ticks) > 0 {
		for _, v := range a.Ticks {
			widest = max(widest, textWidth(a.value(v), small))
		}
		widest += 6
	}
	return int(max((d.area.x1-d.area.x0)/(widest+22), 2))
}

// note returns the lines of the note.
func (d *drawing) note() []string { return wrapped(d.Note, small, d.width-2*outer) }

// rowHeight returns the height of a category in a horizontal chart.
func (d *drawing) rowHeight() float64 {
	height := barSize*float64(max(d.slots(), 1)) + 9
	if d.stacked {
		height += lineHeight
	}
	return height
}

// slots returns the number of series that are side by side within a category.
func (d *drawing) slots() (n int) {
	for _, s := range d.Series {
		if s.Mark == Bars || s.Mark == Dots {
			n++
		}
	}
	return n
}

// categoryWidth returns the room for the names of rows.
func (d *drawing) categoryWidth() float64 {
	widest := 0.0
	for _, name := range d.X.Categories {
		widest = max(widest, textWidth(name, small))
	}
	return min(widest+2, 0.38*d.width)
}

// barLabels returns the room for the labels to the right of bars.
func (d *drawing) barLabels() float64 {
	widest := 0.0
	for _, s := range d.Series {
		for _, p := range s.Points {
			widest = max(widest, textWidth(p.Label, small))
		}
	}
	return outer + min(widest+gap, 0.3*d.width)
}

// findEnds finds the ends of the named lines.
func (d *drawing) findEnds() {
	for i := range d.Series {
		s := &d.Series[i]
		if s.Name == "" || s.Along || s.Mark != Line {
			continue
		}
		for j := len(s.Points) - 1; j >= 0; j-- {
			if p := &s.Points[j]; d.X.shown(p.X) && d.Y.shown(p.Y) {
				d.ends = append(d.ends, ending{series: i, at: position{p.X, p.Y}, name: s.Name}) // not in pixels yet
				break
			}
		}
	}
}

// rightOfLines returns the room to the right of the lines. If the names of the lines need too much
// room, it leaves them to the legend.
func (d *drawing) rightOfLines() float64 {
	const right = outer + 8
	if len(d.ends) == 0 {
		return right
	}
	last := math.Inf(-1)
	for _, e := range d.ends {
		last = max(last, e.at.x)
	}
	widest := 0.0
	for i := range d.ends {
		e := &d.ends[i]
		if e.early = e.at.x < last && !d.Horizontal; !e.early {
			widest = max(widest, bold*textWidth(e.name, small))
		}
	}
	room := d.height - d.header - 80
	if widest > 0.3*d.width || float64(len(d.ends))*lineHeight > room || d.hasDots() && d.width <= narrow {
		d.ends = nil
		return right
	}
	return widest + 14 + outer
}

// layLegend lays out the legend. A single series needs none: the title names it.
func (d *drawing) layLegend() {
	var keys []key
	for i := range d.Series {
		if s := &d.Series[i]; s.Name != "" && !s.Along && d.hue(i) != Soft {
			keys = append(keys, key{series: i, name: shortened(s.Name, small, d.width-2*outer-18)})
		}
	}
	if len(keys) < 2 {
		return
	}
	x := d.width
	for _, k := range keys {
		width := 16 + textWidth(k.name, small) + 14
		if len(d.legend) == 0 || x+width-14 > d.width-outer {
			d.legend, x = append(d.legend, nil), outer
		}
		k.x = x
		last := len(d.legend) - 1
		d.legend[last] = append(d.legend[last], k)
		x += width
	}
}

// fold reports whether two lines are enough, and one line is not, for the name of every column.
func (d *drawing) fold() bool {
	const left = 70 // about the room for the axis
	each := (d.width-left)/float64(max(len(d.X.Categories), 1)) - 4
	most := 1
	for _, name := range d.X.Categories {
		lines := wrapped(name, small, each)
		if strings.Contains(strings.Join(lines, ""), "…") {
			return false
		}
		most = max(most, len(lines))
	}
	return most == 2 && !d.Horizontal
}
