package report

import "fmt"

// picture is an SVG. The page's template writes it, so html/template escapes all text.
type picture struct {
	Width, Height, Label string
	Shapes               []shape
}

// shape is an element of a picture, with formatted coordinates.
type shape struct {
	Kind, Class                      string
	X, Y, X2, Y2, R                  string
	Anchor, Transform, Points, Label string
}

func newPicture(width, height float64, label string) *picture {
	return &picture{Width: coordinate(width), Height: coordinate(height), Label: label}
}

func (p *picture) line(class string, x1, y1, x2, y2 float64) {
	p.Shapes = append(p.Shapes, shape{Kind: "line", Class: class,
		X: coordinate(x1), Y: coordinate(y1), X2: coordinate(x2), Y2: coordinate(y2)})
}

func (p *picture) polyline(class string, points []point) {
	s := shape{Kind: "polyline", Class: class}
	for _, at := range points {
		s.Points += coordinate(at.x) + "," + coordinate(at.y) + " "
	}
	p.Shapes = append(p.Shapes, s)
}

// circle adds a circle with a label that appears when the pointer is over it.
func (p *picture) circle(class string, x, y, r float64, label string) {
	p.Shapes = append(p.Shapes, shape{Kind: "circle", Class: class,
		X: coordinate(x), Y: coordinate(y), R: coordinate(r), Label: label})
}

// text adds a text whose start, middle or end, according to anchor, is at (x, y).
func (p *picture) text(class string, x, y float64, anchor, label string) {
	p.Shapes = append(p.Shapes, shape{Kind: "text", Class: class,
		X: coordinate(x), Y: coordinate(y), Anchor: anchor, Label: label})
}

// turned adds a text that is rotated around (x, y) by an angle in degrees.
func (p *picture) turned(class string, x, y, angle float64, anchor, label string) {
	p.Shapes = append(p.Shapes, shape{Kind: "turned", Class: class, Anchor: anchor, Label: label,
		Transform: fmt.Sprintf("translate(%.1f %.1f) rotate(%.1f)", x, y, angle)})
}

type point struct{ x, y float64 }

func coordinate(v float64) string { return fmt.Sprintf("%.1f", v) }
