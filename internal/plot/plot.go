// Package plot draws charts as SVG: lines, dots and bars, with intervals, on linear,
// logarithmic and nominal axes.
//
// A Chart describes what to draw. SVG writes charts as a stand-alone file, and HTML writes a chart
// for a page, in a wide and a narrow form. The page must include CSS once. Charts follow the
// reader's light or dark colour scheme and use the fonts of the system. Equal charts have equal
// bytes, and all text is escaped.
package plot

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/mquine/mquine/internal/text"
)

// Chart is a plot with two axes.
type Chart struct {
	Title  string
	X, Y   Axis
	Series []Series
	// Horizontal swaps the axes of a chart with X.Categories: the categories are rows, and Y runs
	// from left to right.
	Horizontal bool
	Note       string // a remark under the chart
	// Description is for readers who cannot see the chart. The default is the title and, for each
	// named series, the first and the last value. For dots, bars and a single value, it is the number
	// of values instead.
	Description string
	// Width and Height are in pixels. By default, the width is 720, and the height suits the chart.
	Width, Height float64
}

// Axis describes an axis. Its range contains all values and Include. The Y axis of a chart with bars
// also contains 0, unless the axis is logarithmic.
type Axis struct {
	Label string
	// Categories make an axis nominal: X = i is at the i-th category.
	Categories []string
	Log        bool // values that are not positive are left out
	Integer    bool // no ticks between integers
	Include    []float64
	Ticks      []float64 // default: round numbers
	Rules      []Rule
	Format     func(float64) string // formats ticks and the values that appear under the pointer
}

// Rule is a line across the plot at a value of an axis.
type Rule struct {
	At    float64
	Label string
}

// Mark is the form in which a series is drawn.
type Mark uint8

// The marks. Intervals are drawn as a band around lines, and as whiskers otherwise. Bars need
// categories. Bars and dots of several series are side by side within a category.
const (
	Line Mark = iota
	Dots
	Bars
)

// Soft is the hue of series in the background. Such series do not appear in the legend.
const Soft = -1

// hues is the number of different hues.
const hues = 6

// Series is a sequence of points with the same mark and colour.
type Series struct {
	Name string // shown at the end of the line or in the legend
	Mark Mark
	// Hue is a colour from 1 to 6, or Soft. By default, a series takes the hue that follows the
	// previous series' hue.
	Hue    int
	Dashed bool
	Along  bool // the name of a line is written along it, and no values appear under the pointer
	Points []Point
}

// Point is a value, with an interval if Lo is less than Hi. Points with a NaN, an infinity or a
// magnitude beyond 1e100 are left out, and interrupt a line.
type Point struct {
	X, Y, Lo, Hi float64
	Label        string // shown beside dots, or at the end of horizontal bars
	Hover        string // appears under the pointer; the default shows the values
	Hue          int    // overrides the hue of the series
}

// largest is the largest magnitude that can be drawn. Magnitudes below its inverse count as 0.
const largest = 1e100

// shown reports whether a value can be drawn on the axis.
func (a *Axis) shown(v float64) bool {
	if n := len(a.Categories); n > 0 {
		return v >= 0 && v <= float64(n-1)
	}
	return math.Abs(v) <= largest && !(a.Log && v < 1/largest)
}

// interval reports whether a point has an interval that can be drawn.
func (p *Point) interval(a *Axis) bool { return p.Lo < p.Hi && a.shown(p.Lo) && a.shown(p.Hi) }

// value formats a value of the axis for reading under the pointer.
func (a *Axis) value(v float64) string {
	switch i := int(math.Round(v)); {
	case len(a.Categories) > 0:
		if i < 0 || i >= len(a.Categories) {
			return ""
		}
		return a.Categories[i]
	case a.Format != nil:
		return a.Format(v)
	}
	return number(v, 4)
}

// hover returns the text that appears when the pointer is over a point.
func (c *Chart) hover(s *Series, p *Point) string {
	if p.Hover != "" {
		return p.Hover
	}
	x := c.X.value(p.X)
	if c.X.Label != "" && len(c.X.Categories) == 0 {
		x = c.X.Label + " " + x
	}
	parts := []string{s.Name, x, c.Y.value(p.Y)}
	shown := strings.Join(nonempty(parts), ", ")
	if p.interval(&c.Y) {
		shown += fmt.Sprintf(" (%s to %s)", c.Y.value(p.Lo), c.Y.value(p.Hi))
	}
	return shown
}

// description returns the chart's text for readers who cannot see the chart.
func (c *Chart) description() string {
	if c.Description != "" {
		return c.Description
	}
	var parts []string
	for _, s := range c.Series {
		var first, last *Point
		n := 0
		for i := range s.Points {
			if p := &s.Points[i]; c.X.shown(p.X) && c.Y.shown(p.Y) {
				if last = p; n == 0 {
					first = p
				}
				n++
			}
		}
		switch {
		case s.Name == "" || n == 0:
		case n == 1 || s.Mark == Dots || s.Mark == Bars:
			parts = append(parts, s.Name+": "+text.Plural(n, "value"))
		default:
			parts = append(parts, fmt.Sprintf("%s: from %s to %s", s.Name, c.Y.value(first.Y), c.Y.value(last.Y)))
		}
	}
	return strings.Join(nonempty([]string{c.Title, strings.Join(parts, "; ")}), ". ")
}

func nonempty(texts []string) []string {
	var kept []string
	for _, t := range texts {
		if t != "" {
			kept = append(kept, t)
		}
	}
	return kept
}

// SVG returns an SVG file with the charts below one another.
func SVG(charts ...Chart) []byte {
	var body strings.Builder
	width, height := 0.0, 0.0
	var titles, descriptions []string
	for _, c := range charts {
		d := draw(&c, c.width())
		fmt.Fprintf(&body, `<g transform="translate(0 %s)">%s</g>`+"\n", coordinate(height), d.out.String())
		width, height = max(width, d.width), height+d.height
		titles, descriptions = append(titles, c.Title), append(descriptions, c.description())
	}
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 %s %s" role="img" `+
		`aria-label="%s">`+"\n<title>%s</title>\n<style>%s%s</style>\n"+
		`<rect class="paper" width="100%%" height="100%%"/>`+"\n%s</svg>\n",
		coordinate(width), coordinate(height), escape(strings.Join(nonempty(descriptions), " ")),
		escape(strings.Join(nonempty(titles), "; ")), rules, alone(1.5*width), body.String())
}

// narrow is the width of a chart on a phone.
const narrow = 360

// HTML returns a chart for a page that includes CSS. On narrow screens, the page shows a form of
// the chart whose text remains legible.
func HTML(c Chart) template.HTML {
	inline := func(class string, width float64) string {
		d := draw(&c, width)
		return fmt.Sprintf(`<svg class="plot%s" viewBox="0 0 %s %s" role="img" aria-label="%s">%s</svg>`, class,
			coordinate(d.width), coordinate(d.height), escape(c.description()), d.out.String())
	}
	if c.width() <= narrow {
		return template.HTML(inline("", c.width()))
	}
	return template.HTML(inline(" wide", c.width()) + inline(" narrow", narrow))
}

// width returns the width of the chart's wide form.
func (c *Chart) width() float64 {
	if c.Width > 0 {
		return c.Width
	}
	return 720
}
