package main

import (
	"fmt"
	"strings"

	"github.com/mquine/mquine/internal/plot"
	"github.com/mquine/mquine/kg/zpattern"
)

// plotZ draws the histograms of a report as SVG, with n_Z above rank_Z.
func plotZ(r *zpattern.Report) []byte {
	data := fmt.Sprintf("%s, %v split: triples by ", r.Data, r.Split)
	z := histogramChart(r.Z)
	z.Title, z.X.Label = data+"Z-value n_Z", "n_Z"
	ranks := histogramChart(r.RankZ...)
	ranks.Title = fmt.Sprintf("%srank_Z, convention %v", data, r.Cases[0].Convention)
	ranks.X.Label = "rank_Z"
	return plot.SVG(z, ranks)
}

// histogramChart draws a group of bars for each bin, one bar for each histogram.
func histogramChart(histograms ...zpattern.Histogram) plot.Chart {
	c := plot.Chart{Y: plot.Axis{Label: "triples", Integer: true}, Width: 900, Height: 340}
	for _, bin := range longestBins(histograms) {
		c.X.Categories = append(c.X.Categories, strings.ReplaceAll(bin.String(), "-", "–"))
	}
	for _, h := range histograms {
		s := plot.Series{Name: h.Side, Mark: plot.Bars}
		for i, bin := range h.Bins {
			s.Points = append(s.Points, plot.Point{X: float64(i), Y: float64(bin.N)})
		}
		c.Series = append(c.Series, s)
	}
	return c
}
