package plot

import (
	"fmt"
	"math"
)

// drawing is a chart that is being drawn.
type drawing struct {
	*Chart
	width, height float64
	area          box // between the axes
	x, y          scale
	xTexts        []string // labels of the ticks
	yTexts        []string
	ends          []ending // names at the ends of lines
	legend        [][]key  // rows
	header        float64  // height of the title
	folded        bool     // the names of columns take two lines
	stacked       bool     // the names of rows are above their bars, because the chart is narrow
	avoid         obstacles
	out           writer
}

// Sizes in pixels.
const (
	outer     = 12 // margin
	gap       = 8  // between a text and its mark
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

// class returns the class that colours a series, or a point with its own hue.
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

// at returns the position in the chart of the point with the values x and y.
func (d *drawing) at(x, y float64) position {
	if d.Horizontal {
		return position{d.y.at(y), d.x.at(x)}
	}
	return position{d.x.at(x), d.y.at(y)}
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
			case Line:
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

// across returns the horizontal scale, and up the vertical one.
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
