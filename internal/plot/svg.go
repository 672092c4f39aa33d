package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mquine/mquine/internal/text"
)

// coordinate formats a coordinate with at most one decimal.
func coordinate(v float64) string {
	s := strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	if s == "-0" {
		return "0"
	}
	return s
}

// escape escapes text for elements and attributes.
func escape(s string) string {
	var b bytes.Buffer
	if err := xml.EscapeText(&b, []byte(text.Escape(s))); err != nil {
		panic(err) // a buffer accepts everything
	}
	return b.String()
}

// writer collects the elements of a chart.
type writer struct{ strings.Builder }

func (w *writer) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(w, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class,
		coordinate(x1), coordinate(y1), coordinate(x2), coordinate(y2))
}

// text writes text whose start, middle or end, according to anchor, is at (x, y).
func (w *writer) text(class string, x, y float64, anchor, s string) {
	place := ""
	if anchor != "start" {
		place = ` text-anchor="` + anchor + `"`
	}
	fmt.Fprintf(w, `<text class="%s" x="%s" y="%s"%s>%s</text>`, class, coordinate(x), coordinate(y), place, escape(s))
}

// turned writes text that is rotated around (x, y) by an angle in degrees.
func (w *writer) turned(class string, x, y, angle float64, anchor, s string) {
	fmt.Fprintf(w, `<text class="%s" transform="translate(%s %s) rotate(%s)" text-anchor="%s">%s</text>`, class,
		coordinate(x), coordinate(y), coordinate(angle), anchor, escape(s))
}

func (w *writer) circle(class string, x, y, r float64, hover string) {
	fmt.Fprintf(w, `<circle class="%s" cx="%s" cy="%s" r="%s">%s</circle>`, class,
		coordinate(x), coordinate(y), coordinate(r), title(hover))
}

func (w *writer) rect(class string, x1, y1, x2, y2 float64, hover string) {
	fmt.Fprintf(w, `<rect class="%s" x="%s" y="%s" width="%s" height="%s">%s</rect>`, class,
		coordinate(min(x1, x2)), coordinate(min(y1, y2)), coordinate(math.Abs(x2-x1)), coordinate(math.Abs(y2-y1)),
		title(hover))
}

// path writes a line through points, and closes it if closed is true.
func (w *writer) path(class string, points []position, closed bool) {
	fmt.Fprintf(w, `<path class="%s" d="`, class)
	for i, p := range points {
		letter := "L"
		if i == 0 {
			letter = "M"
		}
		w.WriteString(letter + coordinate(p.x) + " " + coordinate(p.y))
	}
	if closed {
		w.WriteString("Z")
	}
	w.WriteString(`"/>`)
}

func title(s string) string {
	if s == "" {
		return ""
	}
	return "<title>" + escape(s) + "</title>"
}

// position is a place in a chart, in pixels.
type position struct{ x, y float64 }

// textWidth estimates the width of text in pixels. The system chooses the font.
func textWidth(s string, size float64) float64 {
	em := 0.0
	for _, r := range s {
		switch {
		case strings.ContainsRune("iljtfrI.,:;|!'()[]/ ", r):
			em += 0.36
		case strings.ContainsRune("mwMW%@", r):
			em += 0.92
		case r >= 0x2e80: // ideographs and emoji
			em++
		case r >= 'A' && r <= 'Z' || r >= '0' && r <= '9':
			em += 0.66
		default:
			em += 0.62
		}
	}
	return em * size
}

// shortened cuts text to the given width in pixels. A text that it cuts ends with an ellipsis.
func shortened(s string, size, width float64) string {
	if textWidth(s, size) <= width {
		return s
	}
	runes := []rune(s)
	for len(runes) > 1 && textWidth(string(runes)+"…", size) > width {
		runes = runes[:len(runes)-1]
	}
	return strings.TrimRight(string(runes), " ") + "…"
}

// wrapped breaks text at spaces and after dashes, into lines of at most the given width in pixels. It
// shortens words that are wider.
func wrapped(s string, size, width float64) (lines []string) {
	for _, word := range strings.Fields(s) {
		for i, part := range strings.SplitAfter(word, "–") {
			space := " "
			if i > 0 {
				space = ""
			}
			if last := len(lines) - 1; last >= 0 && textWidth(lines[last]+space+part, size) <= width {
				lines[last] += space + part
			} else if part != "" {
				lines = append(lines, shortened(part, size, width))
			}
		}
	}
	return lines
}
