package plot

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// drawing is a chart while it is drawn.
type drawing struct {
	*Chart
	width, height float64
	area          box // between the axes
	x, y          scale
	xTexts        []string // of the ticks
	yTexts        []string
	ends          []ending // names at the ends of lines
	legend        [][]key  // rows
	header        float64  // height of the title
	folded        bool     // the names of columns have two lines
	stacked       bool     // the names of rows are above their bars, because the chart is narrow
	avoid         obstacles
	out           writer
}

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

// Sizes in pixels.
const (
	outer     = 12 // margin
	gap       = 8  // between a text and what it belongs to
	small     = 12 // text
	titleSize = 15
	barSize   = 13
)

// bold is the width of bold text relative to regular text.
const bold = 1.12

// draw draws a chart of the given width.
func draw(c *Chart, width float64) *drawing {
	d := &drawing{Chart: c, width: width}
	d.Horizontal = d.Horizontal && len(d.X.Categories) > 0
	d.layOut()
	d.drawTitle()
	d.drawRules()
	d.drawGrid()
	for _, background := range []bool{true, false} {
		for i := range c.Series {
			if (d.hue(i) == Soft) == background {
				d.drawSeries(i)
			}
		}
	}
	d.drawAlong()
	d.drawDotLabels()
	d.drawEnds()
	return d
}

// hue returns the hue of a series.
func (d *drawing) hue(series int) int {
	hue := 0
	for i := range series + 1 {
		switch own := d.Series[i].Hue; {
		case own < 0:
			if i == series {
				return Soft
			}
		case own > 0:
			hue = own
		default:
			hue++
		}
	}
	return (hue-1)%hues + 1
}

// class returns the class that colours a series or, with a hue of its own, a point.
func (d *drawing) class(series int, p *Point) string {
	hue := d.hue(series)
	if p != nil && p.Hue != 0 {
		hue = p.Hue
	}
	if hue < 0 {
		return "soft"
	}
	return fmt.Sprintf("h%d", (hue-1)%hues+1)
}

// at returns the position of a value.
func (d *drawing) at(x, y float64) position {
	if d.Horizontal {
		return position{d.y.at(y), d.x.at(x)}
	}
	return position{d.x.at(x), d.y.at(y)}
}

// layOut divides the chart into its parts.
func (d *drawing) layOut() {
	const narrowest = 40 // of the area
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

// valueAxis returns the axis below or beside the area.
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

// ticksAcross returns the largest number of ticks from left to right.
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
		if s.Name == "" || s.Along || s.Mark != Line && s.Mark != Steps {
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

// rightOfLines returns the room at the right. If the names of the lines need too much, it leaves
// them to the legend.
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

func (d *drawing) drawTitle() {
	y := outer + 12.0
	for _, line := range wrapped(d.Title, titleSize, d.width-2*outer) {
		d.out.text("title", outer, y, "start", line)
		y += 20
	}
	y = d.header + 12
	for _, row := range d.legend {
		for _, k := range row {
			class := "bar " + d.class(k.series, nil)
			switch s := &d.Series[k.series]; s.Mark {
			case Line, Steps:
				if class = "line " + d.class(k.series, nil); s.Dashed {
					class += " dashed"
				}
				d.out.line(class, k.x, y-4, k.x+12, y-4)
			case Dots:
				d.out.circle("dot "+d.class(k.series, nil), k.x+6, y-4, 4.5, "")
			case Bars:
				d.out.rect(class, k.x+1, y-9, k.x+11, y+1, "")
			}
			d.out.text("key", k.x+16, y, "start", k.name)
		}
		y += 18
	}
	for i, line := range d.note() {
		d.out.text("label", outer, d.height-outer+4-float64(len(d.note())-1-i)*lineHeight, "start", line)
	}
}

// drawGrid draws the lines and texts of both axes.
func (d *drawing) drawGrid() {
	a := d.area
	across, acrossTexts, up, upTexts := &d.x, d.xTexts, &d.y, d.yTexts
	if d.Horizontal {
		across, acrossTexts, up, upTexts = &d.y, d.yTexts, &d.x, d.xTexts
	}
	for i, v := range across.ticks {
		x := across.at(v)
		d.out.line("grid", x, a.y0, x, a.y1)
		half := textWidth(acrossTexts[i], small) / 2
		d.out.text("tick", min(max(x, half+2), d.width-half-2), a.y1+lineHeight+2, "middle", acrossTexts[i])
	}
	for i, v := range up.ticks {
		y := up.at(v)
		d.out.line("grid", a.x0, y, a.x1, y)
		d.out.text("tick", a.x0-gap, y+4, "end", upTexts[i])
	}
	d.drawCategories()
	d.out.line("axis", a.x0, a.y1, a.x1, a.y1)
	if d.Horizontal {
		d.out.line("axis", a.x0, a.y0, a.x0, a.y1)
	}
	if label := d.valueAxis(true).Label; label != "" {
		y := a.y1 + 2*lineHeight + 3
		if d.folded {
			y += lineHeight
		}
		d.out.text("label", (a.x0+a.x1)/2, y, "middle", shortened(label, small, d.width-2*outer))
	}
	if label := d.valueAxis(false).Label; label != "" {
		d.out.text("label", outer, a.y0-12, "start", shortened(label, small, d.width-2*outer))
	}
	if ex, _ := d.extents(); !ex.any {
		d.out.text("label", (a.x0+a.x1)/2, (a.y0+a.y1)/2, "middle", "no data")
	}
}

// fold reports whether the names of columns fit only in two lines.
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

// drawCategories writes the names of the categories, in a vertical chart only if there is room.
func (d *drawing) drawCategories() {
	n := len(d.X.Categories)
	if n == 0 {
		return
	}
	if d.Horizontal {
		for i, name := range d.X.Categories {
			class := "key"
			x, y, anchor, width := d.area.x0-gap, d.x.at(float64(i))+4, "end", d.categoryWidth()
			if d.stacked {
				class = "key halo" // the name covers rules
				x, y, anchor, width = outer+4, d.x.at(float64(i)-0.5)+small, "start", d.width-2*outer
			}
			short := shortened(name, small, width)
			if short != name { // the full name appears under the pointer
				fmt.Fprintf(&d.out, `<g>%s`, title(name))
			}
			d.out.text(class, x, y, anchor, short)
			if short != name {
				d.out.WriteString(`</g>`)
			}
		}
		return
	}
	each, widest := (d.area.x1-d.area.x0)/float64(n), 0.0
	if d.folded {
		for i, name := range d.X.Categories {
			for j, line := range wrapped(name, small, each) {
				y := d.area.y1 + lineHeight*float64(j+1) + 2
				d.out.text("tick", d.x.at(float64(i)), y, "middle", line)
			}
		}
		return
	}
	for _, name := range d.X.Categories {
		widest = max(widest, textWidth(name, small)+8)
	}
	every := int(max(math.Ceil(min(widest, 120)/each), 1))
	for i := 0; i < n; i += every {
		name := shortened(d.X.Categories[i], small, max(each*float64(every), 20))
		d.out.text("tick", d.x.at(float64(i)), d.area.y1+lineHeight+2, "middle", name)
	}
}

// drawRules draws the rules of both axes with their labels.
func (d *drawing) drawRules() {
	a := d.area
	for _, axis := range []*Axis{&d.X, &d.Y} {
		for _, r := range axis.Rules {
			if !axis.shown(r.At) {
				continue
			}
			width := textWidth(r.Label, small)
			if upright := (axis == &d.X) != d.Horizontal; upright {
				x := d.across().at(r.At)
				d.out.line("rule soft", x, a.y0, x, a.y1)
				if r.Label == "" {
					continue
				}
				if d.Horizontal { // above the bars
					d.out.text("label", min(max(x, width/2+2), d.width-width/2-2), a.y0-5, "middle", r.Label)
					continue
				}
				anchor, start := "start", x+4
				if start+width > a.x1 {
					anchor, start = "end", x-4
					d.avoid.texts = append(d.avoid.texts, box{start - width, a.y0, start, a.y0 + lineHeight})
				} else {
					d.avoid.texts = append(d.avoid.texts, box{start, a.y0, start + width, a.y0 + lineHeight})
				}
				d.out.text("label", start, a.y0+11, anchor, r.Label)
				continue
			}
			y := d.up().at(r.At)
			d.out.line("rule soft", a.x0, y, a.x1, y)
			if r.Label != "" {
				d.avoid.texts = append(d.avoid.texts, box{a.x0, y - lineHeight, a.x0 + width + 4, y})
				d.out.text("label", a.x0+4, y-4, "start", r.Label)
			}
		}
	}
}

// across returns the scale from left to right, and up the other one.
func (d *drawing) across() *scale {
	if d.Horizontal {
		return &d.y
	}
	return &d.x
}

func (d *drawing) up() *scale {
	if d.Horizontal {
		return &d.x
	}
	return &d.y
}

func (d *drawing) drawSeries(i int) {
	s := &d.Series[i]
	back := ""
	if d.hue(i) == Soft {
		back = " back"
	}
	fmt.Fprintf(&d.out, "\n"+`<g class="%s%s">`, d.class(i, nil), back)
	switch s.Mark {
	case Line, Steps:
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
	var points []position // of the current part
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
		if n := len(points); n > 0 && s.Mark == Steps {
			points = append(points, d.corner(points[n-1], at))
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

// corner returns the corner of a step: y changes at the later x.
func (d *drawing) corner(a, b position) position {
	if d.Horizontal {
		return position{a.x, b.y}
	}
	return position{b.x, a.y}
}

// offset returns the shift of a series within the categories, and the width of its marks, in
// categories.
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

// label writes a label near a dot if there is room, with a line to the dot if it is further away.
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

// drawEnds writes the names of lines at their ends, moved apart.
func (d *drawing) drawEnds() {
	var last []ending // of the lines that end at the right
	var wishes []float64
	for _, e := range d.ends {
		e.at = d.at(e.at.x, e.at.y)
		far := e.early || d.area.x1-e.at.x > 60
		if !far || !d.label(e.at, e.name, d.class(e.series, nil)) {
			last, wishes = append(last, e), append(wishes, e.at.y)
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

// along returns the boxes that a rotated text covers and the number of parts of lines under it. The
// boxes are nil if some of them are taken.
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
