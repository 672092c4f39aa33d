package main

import (
	"bytes"
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg/zpattern"
)

// plotZ draws the histograms of a report as SVG, with n_Z above rank_Z.
func plotZ(r *zpattern.Report) ([]byte, error) {
	above, err := barChart(r.Z)
	if err != nil {
		return nil, err
	}
	above.Title.Text = fmt.Sprintf("%s %v, convention %v", text.Escape(r.Data), r.Split, r.Cases[0].Convention)
	above.X.Label.Text = "Z-value"
	below, err := barChart(r.RankZ...)
	if err != nil {
		return nil, err
	}
	below.X.Label.Text = "rank of the Z-value among the candidates"

	canvas := vgsvg.New(900, 600)
	tiles := draw.Tiles{Rows: 2, Cols: 1, PadX: 10, PadY: 20, PadTop: 10, PadBottom: 10, PadLeft: 10, PadRight: 10}
	plots := [][]*plot.Plot{{above}, {below}}
	for row, c := range plot.Align(plots, tiles, draw.New(canvas)) {
		plots[row][0].Draw(c[0])
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return nil, fmt.Errorf("drawing the histograms: %w", err)
	}
	return svg.Bytes(), nil
}

// barChart draws a group of bars for each bin, one bar for each histogram.
func barChart(histograms ...zpattern.Histogram) (*plot.Plot, error) {
	labels := names(longestBins(histograms))
	p := plot.New()
	p.Y.Label.Text = "triples"
	p.Legend.Top, p.Legend.XOffs = true, -300 // above bars that are rarely tall
	p.NominalX(labels...)
	const barWidth = vg.Length(12)
	for i, h := range histograms {
		counts := make(plotter.Values, len(labels))
		for j, b := range h.Bins {
			counts[j] = float64(b.N)
		}
		bars, err := plotter.NewBarChart(counts, barWidth)
		if err != nil {
			return nil, fmt.Errorf("drawing the histograms: %w", err)
		}
		bars.Color = plotutil.SoftColors[i]
		bars.LineStyle.Width = 0
		bars.Offset = (vg.Length(i) - vg.Length(len(histograms)-1)/2) * barWidth
		p.Add(bars)
		if h.Side != "" {
			p.Legend.Add(h.Side, bars)
		}
	}
	return p, nil
}
