package plot

import (
	"fmt"
	"html/template"
	"strings"
)

// palette contains the colours for a background. The hues are variants of Okabe and Ito's. All of them
// can be read as text on the background, and none can be mistaken for another, even with the common
// colour vision deficiencies. A test measures both properties.
type palette struct {
	paper, ink, soft, line, tint string
	hues                         [hues]string
}

var (
	light = palette{
		paper: "#ffffff", ink: "#1b1f24", soft: "#59636e", line: "#d8dee4", tint: "#f3f5f8",
		hues: [hues]string{"#004caf", "#e22d18", "#007a5a", "#b34796", "#607d17", "#1b1f24"},
	}
	dark = palette{
		paper: "#10141a", ink: "#e4e9ef", soft: "#9aa5b1", line: "#303842", tint: "#1a2029",
		hues: [hues]string{"#4a9dff", "#f47748", "#4ae0a0", "#cd79b2", "#ebd225", "#e4e9ef"},
	}
)

// rules style charts. They contain colours instead of custom properties, because converters such as
// librsvg do not support custom properties. Printed charts have the light colours.
var rules = shapes + light.rules() + "@media screen and (prefers-color-scheme: dark) {\n" + dark.rules() + "}"

// alone returns the style of a stand-alone file. In a browser, such a file fills the window up to
// the given width.
func alone(width float64) string {
	return fmt.Sprintf(`
svg:root { max-width: %spx; margin: auto; background: %s; }
@media screen and (prefers-color-scheme: dark) { svg:root { background: %s; } }
`, coordinate(width), light.paper, dark.paper)
}

// CSS returns the style sheet for a page with charts. It also defines the colours as custom
// properties for the page: --paper, --ink, --soft, --line, --tint and --hue1 to --hue6. Inside an
// element with the class plot, the classes h1 to h6 set the colour of an element to a hue.
func CSS() template.CSS {
	return template.CSS(":root { color-scheme: light dark; }\n" + light.properties() +
		"@media screen and (prefers-color-scheme: dark) {\n" + dark.properties() + "}\n" + rules + `
.plot.narrow { display: none; }
@media screen and (max-width: 40rem) { .plot.wide { display: none; } .plot.narrow { display: block; } }
`)
}

const shapes = `
.plot { display: block; width: 100%; height: auto; }
.plot text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
.plot .title { font-size: 15px; font-weight: 600; }
.plot .tick { font-variant-numeric: tabular-nums; }
.plot .name { font-weight: 600; }
.plot .name, .plot .halo { stroke-width: 3px; stroke-linejoin: round; paint-order: stroke; }
.plot .name, .plot .dot, .plot .bar, .plot .band, .plot .hit { fill: currentColor; }
.plot .grid, .plot .axis { stroke-width: 1; vector-effect: non-scaling-stroke; shape-rendering: crispEdges; }
.plot .line, .plot .range, .plot .rule { fill: none; stroke: currentColor; stroke-linejoin: round; }
.plot .line { stroke-width: 2; } .plot .back .line, .plot .range { stroke-width: 1.2; }
.plot .dashed, .plot .rule { stroke-dasharray: 5 4; }
.plot .rule, .plot .lead { stroke: currentColor; stroke-width: 1; }
.plot .back .line { opacity: .6; } .plot .lead { opacity: .7; } .plot .band { opacity: .18; }
.plot .dot, .plot .hit { stroke-width: 1; } .plot .hit { opacity: 0; } .plot .hit:hover { opacity: 1; }
.plot .bar, .plot .band { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
`

func (p *palette) rules() string {
	var b strings.Builder
	fmt.Fprintf(&b, `.plot text { fill: %[2]s; } .plot .range { color: %[2]s; }
.plot .tick, .plot .label { fill: %[3]s; }
.plot .paper { fill: %[1]s; } .plot .name, .plot .halo, .plot .dot { stroke: %[1]s; } .plot .bar:hover { fill: %[2]s; }
.plot .grid { stroke: %[4]s; } .plot .axis { stroke: %[3]s; } .plot .soft, .plot .rule { color: %[3]s; }
`, p.paper, p.ink, p.soft, p.line)
	for i, hue := range p.hues {
		fmt.Fprintf(&b, ".plot .h%d { color: %s; } ", i+1, hue)
	}
	return strings.TrimSpace(b.String()) + "\n"
}

func (p *palette) properties() string {
	var b strings.Builder
	fmt.Fprintf(&b, ":root { --paper: %s; --ink: %s; --soft: %s; --line: %s; --tint: %s;",
		p.paper, p.ink, p.soft, p.line, p.tint)
	for i, hue := range p.hues {
		fmt.Fprintf(&b, " --hue%d: %s;", i+1, hue)
	}
	return b.String() + " }\n"
}
