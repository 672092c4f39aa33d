package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// charts returns charts of every kind.
func charts() map[string]Chart {
	loss := Chart{
		Title: "mquine, d = 12, umls: loss",
		X:     Axis{Label: "epoch", Integer: true, Rules: []Rule{{3, "best"}}}, Y: Axis{Label: "loss", Log: true},
		Series: []Series{
			{Name: "total", Points: []Point{{X: 1, Y: 23}, {X: 2, Y: 4}, {X: 3, Y: 3.7}, {X: 4, Y: 3.6}}},
			{Name: "fit", Points: []Point{{X: 1, Y: 22}, {X: 2, Y: 3.9}, {X: 3, Y: 3.65}, {X: 4, Y: 3.58}}},
		},
	}
	relations := Chart{
		Title: "MRR by relation", Horizontal: true,
		X: Axis{Categories: []string{"is_a", "a relation with a very long name, which the chart must shorten", `<&"`}},
		Y: Axis{Label: "MRR", Include: []float64{1}, Rules: []Rule{{0.5, "all"}}},
		Series: []Series{
			{Name: "trained", Mark: Bars, Points: []Point{{Y: 0.5, Lo: 0.4, Hi: 0.6, Label: "0.50"}, {X: 1, Y: 0.25}}},
			{Name: "random", Mark: Bars, Points: []Point{{X: 1, Y: 0.1, Hue: Soft}, {X: 2, Y: 0.2}}},
		},
	}
	roofline := Chart{
		Title: "Roofline", X: Axis{Label: "flop/B", Log: true}, Y: Axis{Label: "GFLOP/s", Log: true},
		Series: []Series{
			{Name: "L1 200 GB/s", Hue: Soft, Along: true, Points: []Point{{X: 0.1, Y: 20}, {X: 1, Y: 200}}},
			{Name: "FMA", Hue: Soft, Points: []Point{{X: 0.1, Y: 200}, {X: 64, Y: 200}}},
			{Name: "Panel", Mark: Dots, Points: []Point{{X: 8, Y: 150, Label: "dot"}, {X: 9, Y: 151, Label: "l1"}}},
		},
	}
	bins := Chart{
		Title: "Z-values", Y: Axis{Label: "triples"},
		X:      Axis{Label: "n_Z", Categories: []string{"0", "1", "2–3", "4–7"}},
		Series: []Series{{Mark: Bars, Points: []Point{{X: 0, Y: 10}, {X: 1, Y: 20000}, {X: 3, Y: 1}}}},
	}
	ranks := Chart{
		Title: "Ranks", X: Axis{Label: "rank", Log: true}, Y: Axis{Label: "share", Include: []float64{0, 1}},
		Series: []Series{{Name: "a", Points: []Point{{X: 1, Y: 0.4}, {X: 10, Y: 0.8}, {X: 1000, Y: 1}}}},
	}
	trend := Chart{
		Width: 260, Height: 120,
		X:      Axis{Ticks: []float64{0, 1}, Format: func(v float64) string { return fmt.Sprint("c", v) }},
		Series: []Series{{Points: []Point{{Y: 50, Lo: 49, Hi: 52}, {X: 1, Y: 51, Lo: 50, Hi: 52}}}},
	}
	return map[string]Chart{
		"loss": loss, "relations": relations, "roofline": roofline, "bins": bins, "ranks": ranks, "trend": trend,
	}
}

// element is an element of an SVG with its text and its attributes.
type element struct {
	name, class, text string
	attributes        map[string]string
}

// elements parses an SVG. It checks that the SVG is well-formed, and that all coordinates are finite
// and not far outside the image.
func elements(t *testing.T, svg string) (list []element) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(svg))
	var open []int
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(t, err, svg)
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local, attributes: map[string]string{}}
			for _, a := range token.Attr {
				e.attributes[a.Name.Local] = a.Value
			}
			e.class = e.attributes["class"]
			for _, key := range strings.Fields("x y x1 x2 y1 y2 cx cy r d viewBox transform") {
				require.NotRegexp(t, `(?i)nan|inf|e[+-]|[0-9]{6}`, e.attributes[key], svg)
			}
			for _, key := range []string{"width", "height"} {
				require.NotRegexp(t, `-|NaN|Inf`, e.attributes[key], svg)
			}
			open = append(open, len(list))
			list = append(list, e)
		case xml.CharData:
			if len(open) > 0 {
				list[open[len(open)-1]].text += string(token)
			}
		case xml.EndElement:
			open = open[:len(open)-1]
		}
	}
}

func count(list []element, name, class string) (n int) {
	for _, e := range list {
		if e.name == name && strings.Contains(" "+e.class+" ", " "+class+" ") {
			n++
		}
	}
	return n
}

func texts(list []element, class string) (all []string) {
	for _, e := range list {
		if e.name == "text" && strings.Contains(" "+e.class+" ", " "+class+" ") {
			all = append(all, e.text)
		}
	}
	return all
}

func TestStructure(t *testing.T) {
	all := charts()
	list := elements(t, string(SVG(all["loss"])))
	assert.Equal(t, "svg", list[0].name)
	assert.Equal(t, "0 0 720 396", list[0].attributes["viewBox"])
	assert.Equal(t, "mquine, d = 12, umls: loss. total: from 23 to 3.6; fit: from 22 to 3.58",
		list[0].attributes["aria-label"])
	assert.Equal(t, 2, count(list, "path", "line"))
	assert.Equal(t, 8, count(list, "circle", "dot"))
	assert.Equal(t, []string{"total", "fit"}, texts(list, "name"), "names at the ends of the lines")
	assert.Equal(t, []string{"1", "2", "3", "4", "4", "5", "6", "7", "8", "9", "10", "20"}, texts(list, "tick"))
	assert.Equal(t, []string{"best", "epoch", "loss"}, texts(list, "label"))

	list = elements(t, string(SVG(all["relations"])))
	assert.Equal(t, 4+2, count(list, "rect", "bar"), "four bars and two keys")
	assert.Equal(t, 3, count(list, "path", "range"), "an interval has a line and two ends")
	keys := texts(list, "key")
	assert.Equal(t, []string{"trained", "random", "is_a"}, keys[:3])
	assert.Equal(t, []string{`<&"`, "0.50"}, keys[4:])
	assert.Regexp(t, "^a relation .*…$", keys[3])

	list = elements(t, string(SVG(all["roofline"])))
	assert.ElementsMatch(t, []string{"L1 200 GB/s", "FMA", "dot", "l1"}, texts(list, "name"))

	list = elements(t, string(SVG(all["ranks"], all["bins"])))
	assert.Equal(t, "Ranks; Z-values", list[1].text)
	assert.Equal(t, 3, count(list, "rect", "bar"))
}

// Bars begin at 0, and their lengths are proportional to the values.
func TestBarLengths(t *testing.T) {
	list := elements(t, string(SVG(Chart{
		X: Axis{Categories: []string{"a", "b", "c"}}, Horizontal: true,
		Series: []Series{{Mark: Bars, Points: []Point{{X: 0, Y: 1}, {X: 1, Y: 4}, {X: 2, Y: -2}}}},
	})))
	var from, width []float64
	for _, e := range list {
		if e.class == "bar" {
			var x, w float64
			_, err := fmt.Sscan(e.attributes["x"]+" "+e.attributes["width"], &x, &w)
			require.NoError(t, err)
			from, width = append(from, x), append(width, w)
		}
	}
	require.Len(t, width, 3)
	assert.InDelta(t, 4*width[0], width[1], 0.3)
	assert.InDelta(t, 2*width[0], width[2], 0.3)
	assert.InDelta(t, from[0], from[1], 0.1)
	assert.InDelta(t, from[0], from[2]+width[2], 0.2)
}

func TestPositions(t *testing.T) {
	s := scale{log: true, lo: 1, hi: 100, from: 10, to: 110}
	assert.InDelta(t, 60, s.at(10), 1e-9)
	s = scale{lo: -1, hi: 3, from: 100, to: 0}
	assert.InDelta(t, 75, s.at(0), 1e-9)
}

func TestTicks(t *testing.T) {
	labels := func(a Axis, lo, hi float64, most int, round bool) string {
		s := a.newScale(extent{lo, hi, true}, most, round)
		return strings.Join(a.labels(&s), " ")
	}
	for _, c := range []struct {
		axis   Axis
		lo, hi float64
		most   int
		round  bool
		want   string
	}{
		{Axis{}, 0, 1, 6, true, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{Axis{}, 0.03, 0.97, 6, true, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{Axis{}, 0.03, 0.97, 6, false, "0.2 0.4 0.6 0.8"},
		{Axis{}, -3, 12000, 5, true, "−5,000 0 5,000 10,000 15,000"},
		{Axis{Integer: true}, 1, 3, 10, false, "1 2 3"},
		{Axis{Integer: true}, 1, 80, 8, false, "20 40 60 80"},
		{Axis{Integer: true}, 1, 1, 8, false, "0 1 2"},
		{Axis{Ticks: []float64{1, 3, 9, 27}, Log: true, Integer: true}, 1, 27, 8, false, "1 3 9 27"},
		{Axis{Ticks: []float64{1, 3, 9, 27}, Log: true}, 1, 27, 2, false, "1 9"},
		{Axis{Log: true}, 1, 14541, 8, false, "1 10 100 1,000 10,000"},
		{Axis{Log: true}, 1, 14541, 3, false, "1 100 10,000"},
		{Axis{Log: true}, 3.5, 23, 12, false, "4 5 6 7 8 9 10 20"},
		{Axis{Log: true}, 3.5, 23, 5, false, "5 10 20"},
		{Axis{Log: true}, 3.5, 3.9, 5, false, "3.5 3.6 3.7 3.8 3.9"},
		{Axis{Log: true}, 5, 5, 5, false, "5 10"},
		{Axis{}, 5e6, 2e7, 5, true, "5M 10M 15M 20M"},
		{Axis{}, 1e-7, 3e-7, 5, true, "1e−07 1.5e−07 2e−07 2.5e−07 3e−07"},
		{Axis{}, 7, 7, 5, true, "4 6 8 10"},
	} {
		assert.Equal(t, c.want, labels(c.axis, c.lo, c.hi, c.most, c.round), "%v to %v", c.lo, c.hi)
	}
}

func TestSpread(t *testing.T) {
	assert.Equal(t, []float64{10, 50}, spread([]float64{10, 50}, 15, 0, 100))
	assert.Equal(t, []float64{57.5, 42.5}, spread([]float64{51, 49}, 15, 0, 100))
	assert.Equal(t, []float64{0, 15, 30}, spread([]float64{2, 2, 2}, 15, 0, 100))
	assert.Equal(t, []float64{70, 85, 100}, spread([]float64{99, 99, 99}, 15, 0, 100))
	placed := spread([]float64{20, 22, 37, 38, 80, 3}, 15, 0, 100)
	for i, a := range placed {
		for _, b := range placed[:i] {
			assert.GreaterOrEqual(t, math.Abs(a-b), 15-1e-9)
		}
	}
	assert.Empty(t, spread(nil, 15, 0, 100))
}

func TestWrapped(t *testing.T) {
	assert.Empty(t, wrapped(" ", small, 50))
	assert.Equal(t, []string{"a title of", "two lines"}, wrapped("a title of two lines", small, 70))
	assert.Equal(t, []string{"1024–", "2047"}, wrapped("1024–2047", small, 44))
	assert.Equal(t, []string{"2–3"}, wrapped("2–3", small, 44))
	assert.Equal(t, []string{"a", "veryl…", "x"}, wrapped("a verylongword x", small, 40))
}

// The labels of dots in a crowd cover neither dots nor one another.
func TestLabelsKeepApart(t *testing.T) {
	c := Chart{Title: "crowd", Series: []Series{{Mark: Dots}}}
	for i := range 12 {
		c.Series[0].Points = append(c.Series[0].Points,
			Point{X: math.Sin(float64(i)), Y: math.Cos(float64(2 * i)), Label: fmt.Sprint("label ", i)})
	}
	d := draw(&c, 720)
	assert.Len(t, d.avoid.texts, 12)
	for i, a := range d.avoid.texts {
		assert.Zero(t, overlapping(d.avoid.dots, a))
		assert.Zero(t, overlapping(d.avoid.texts[:i], a))
	}
}

// The names of lines that end at the same place are in the order of the lines.
func TestOrderOfEnds(t *testing.T) {
	list := elements(t, string(SVG(Chart{Series: []Series{
		{Name: "low", Points: []Point{{X: 1, Y: 0}, {X: 2, Y: 0.1}, {X: 3, Y: 1}}},
		{Name: "high", Points: []Point{{X: 1, Y: 0.7}, {X: 2, Y: 0.9}, {X: 3, Y: 1}}},
	}})))
	height := map[string]float64{}
	for _, e := range list {
		if strings.Contains(e.class, "name") {
			y, err := strconv.ParseFloat(e.attributes["y"], 64)
			require.NoError(t, err)
			height[e.text] = y
		}
	}
	assert.InDelta(t, lineHeight, height["low"]-height["high"], 0.2)
}

func TestEmptyCharts(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]Chart{
		"zero":      {},
		"no points": {Title: "x", Series: []Series{{Name: "a"}, {Name: "b", Mark: Bars}}},
		"NaN":       {Series: []Series{{Name: "a", Points: []Point{{X: nan, Y: 1}, {X: 1, Y: math.Inf(1)}}}}},
		"log":       {Y: Axis{Log: true}, Series: []Series{{Points: []Point{{X: 1, Y: 0}, {X: 2, Y: -1}}}}},
		"categories": {
			X: Axis{Categories: []string{"a"}}, Horizontal: true, Series: []Series{{Points: []Point{{X: 7, Y: 1}}}},
		},
	} {
		list := elements(t, string(SVG(c)))
		assert.Contains(t, texts(list, "label"), "no data", name)
		elements(t, string(HTML(c)[:strings.Index(string(HTML(c)), "</svg>")+6]))
	}
	one := elements(t, string(SVG(Chart{Series: []Series{{Points: []Point{{X: 3, Y: 5}}}}})))
	assert.Equal(t, 1, count(one, "circle", "dot"), "a single point is a dot")
	gaps := []Point{{X: 1}, {X: 2}, {X: 3, Y: nan}, {X: 4}, {X: 5}}
	parts := elements(t, string(SVG(Chart{Series: []Series{{Points: gaps}}})))
	assert.Equal(t, 2, count(parts, "path", "line"), "a missing value interrupts the line")
}

func TestText(t *testing.T) {
	const hostile = "</title></svg><script>alert(1)</script>\"'&\x1b]0;t\a\u202e\x00\ufffe"
	c := Chart{
		Title: hostile, Note: hostile, X: Axis{Label: hostile, Rules: []Rule{{1, hostile}}}, Y: Axis{Label: hostile},
		Series: []Series{
			{Name: hostile, Points: []Point{{X: 1, Y: 1, Hover: hostile}, {X: 2, Y: 1}}},
			{Name: hostile, Mark: Dots, Points: []Point{{X: 1, Y: 2, Label: hostile}}},
		},
	}
	bars := Chart{
		X: Axis{Categories: []string{hostile}}, Horizontal: true,
		Series: []Series{{Mark: Bars, Points: []Point{{Y: 1, Label: hostile}}}},
	}
	for _, svg := range []string{string(SVG(c, bars)), string(HTML(c)), string(HTML(bars))} {
		assert.NotContains(t, svg, "<script")
		assert.NotContains(t, svg, "\x1b")
		assert.NotContains(t, svg, "\u202e")
		elements(t, "<div>"+svg+"</div>")
	}
}

func TestSameBytes(t *testing.T) {
	for name, c := range charts() {
		assert.Equal(t, string(SVG(c)), string(SVG(c)), name)
		assert.Equal(t, HTML(c), HTML(c), name)
	}
}

func TestHTML(t *testing.T) {
	all := charts()
	html := string(HTML(all["loss"]))
	assert.Contains(t, html, `class="plot wide" viewBox="0 0 720 `)
	assert.Contains(t, html, `class="plot narrow" viewBox="0 0 360 `)
	assert.NotContains(t, html, "<style")
	small := string(HTML(all["trend"]))
	assert.Equal(t, 1, strings.Count(small, "<svg "), "a small chart needs no narrow form")
	assert.Contains(t, small, "<title>c1, 51 (50 to 52)</title>")
	for _, css := range []string{string(CSS()), string(SVG(all["loss"]))} {
		assert.Contains(t, css, "@media screen and (prefers-color-scheme: dark)")
		assert.Contains(t, css, light.hues[0])
		assert.Contains(t, css, dark.hues[0])
	}
	// A file loads nothing, and converters that do not know custom properties show its colours.
	file := string(SVG(all["loss"]))
	assert.NotContains(t, file, "var(")
	assert.Equal(t, 1, len(regexp.MustCompile(`https?://`).FindAllString(file, -1)), "only the namespace")
}

// FuzzChart draws charts from arbitrary numbers and text.
func FuzzChart(f *testing.F) {
	f.Add("a", 1.0, 2.0, 3.0, 4.0, uint8(0), uint16(300))
	f.Add(`<&"`, -1.0, 0.0, 1e300, math.Inf(1), uint8(255), uint16(0))
	f.Add("\xff\u202e", math.NaN(), 5e-324, -5e-324, 1e100, uint8(77), uint16(5000))
	f.Add("0", math.NaN(), 1.33, -2.5e-323, 3e100, uint8(0xe3), uint16(4818))
	f.Add("…", 1e16, 1e16+2, 1e-100, 1e99, uint8(10), uint16(90))
	f.Fuzz(func(t *testing.T, s string, a, b, c, d float64, bits uint8, width uint16) {
		s = s[:min(len(s), 200)]
		flag := func(i int) bool { return bits>>i&1 == 1 }
		chart := Chart{
			Title: s, Note: s, Horizontal: flag(0), Width: float64(width),
			X: Axis{Label: s, Log: flag(1), Integer: flag(2), Rules: []Rule{{c, s}}},
			Y: Axis{Label: s, Log: flag(3), Include: []float64{d}, Ticks: []float64{a, d}},
		}
		if flag(4) {
			chart.X.Categories = []string{s, "b"}
		}
		if flag(5) {
			chart.Y.Ticks = nil
		}
		points := []Point{
			{X: a, Y: b, Lo: c, Hi: d, Label: s}, {X: b, Y: c}, {X: 1, Y: a}, {X: d, Y: d}, {X: c, Y: 1, Lo: a, Hi: b},
		}
		for mark := range Bars + 1 {
			series := Series{Name: s, Mark: mark, Along: flag(6), Dashed: flag(7), Points: points}
			chart.Series = append(chart.Series, series)
		}
		svg := SVG(chart)
		require.NoError(t, wellFormed(svg))
		require.NoError(t, wellFormed([]byte("<div>"+string(HTML(chart))+"</div>")))
		require.Empty(t, regexp.MustCompile(`="[^"]*(NaN|Inf|[0-9]{7})[^"]*"`).FindString(coordinates(svg)))
	})
}

func wellFormed(svg []byte) error {
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	for {
		if _, err := decoder.Token(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// coordinates returns the attributes of an SVG that hold coordinates.
func coordinates(svg []byte) string {
	return strings.Join(regexp.MustCompile(` (x|y|x1|x2|y1|y2|cx|cy|width|height|d|transform)="[^"]*"`).
		FindAllString(string(svg), -1), "\n")
}
