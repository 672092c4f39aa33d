// Package lineplot draws values over epochs as line plots.
package lineplot

import (
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/text"
)

// Line is a line in a plot. A line without a name is grey and does not appear in the legend.
type Line struct {
	Name   string
	Points plotter.XYs
}

// Write writes lines as an SVG file. The legend is at the top if legendTop is true, and at the
// bottom otherwise.
func Write(path, title string, lines []Line, legendTop bool) error {
	p := plot.New()
	p.Title.Text = text.Escape(title)
	p.X.Label.Text = "epoch"
	named := 0
	for _, l := range lines {
		line, points, err := plotter.NewLinePoints(l.Points)
		if err != nil {
			return fmt.Errorf("drawing %s: %w", path, err)
		}
		line.Color, points.Color = color.Gray{190}, color.Gray{190}
		if l.Name != "" {
			line.Color, points.Color = plotutil.Color(named), plotutil.Color(named)
			p.Legend.Add(l.Name, line)
			named++
		}
		p.Add(line, points)
	}
	// Include 0, and give the axis a positive length.
	p.Y.Min = min(0, p.Y.Min)
	if p.Y.Max <= p.Y.Min {
		p.Y.Max = p.Y.Min + 1
	}
	p.Legend.Top = legendTop
	canvas := vgsvg.New(640, 400)
	p.Draw(vgdraw.New(canvas))
	return atomicfile.Write(path, func(w io.Writer) error {
		_, err := canvas.WriteTo(w)
		return err
	})
}
