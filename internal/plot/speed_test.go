package plot

import (
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/speed.svg")

// TestSpeedChart draws docs/speed.svg from the README's table of speeds, which links to its source.
func TestSpeedChart(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	const header = "| data set, model | mquine | oneDNN | OpenBLAS | PyTorch, unique | PyTorch |\n"
	_, rows, ok := strings.Cut(string(readme), header)
	require.True(t, ok, "the README lacks the table of speeds")
	rows, _, _ = strings.Cut(rows, "\n\n")
	chart := Chart{
		Title: "Evaluation time relative to mquine, on two Zen 4 cores", Horizontal: true, Width: 760,
		Y: Axis{
			Label: "times as long as mquine", Include: []float64{0, 5}, Ticks: []float64{0, 1, 2, 3, 4, 5},
			Rules: []Rule{{1, "mquine"}},
		},
		Series: []Series{
			{Name: "oneDNN", Mark: Bars}, {Name: "OpenBLAS", Mark: Bars},
			{Name: "PyTorch, unique", Mark: Bars}, {Name: "PyTorch", Mark: Bars},
		},
	}
	for row := range strings.Lines(rows) {
		cells := strings.Split(strings.Trim(row, "| \n"), " | ")
		if len(cells) != 6 { // the separator line, or a model that not all programs were measured on
			continue
		}
		x := float64(len(chart.X.Categories))
		chart.X.Categories = append(chart.X.Categories, cells[0])
		for i := range chart.Series {
			cell := cells[2+i]
			y, err := strconv.ParseFloat(strings.TrimSuffix(cell, " ×"), 64)
			require.NoError(t, err, row)
			s := &chart.Series[i]
			s.Points = append(s.Points, Point{X: x, Y: y, Label: cell})
		}
	}
	require.Len(t, chart.X.Categories, 6)
	svg, path := SVG(chart), "../../docs/speed.svg"
	if *update {
		require.NoError(t, os.WriteFile(path, svg, 0o644))
	}
	committed, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(svg), string(committed), "run: go test ./internal/plot -run TestSpeedChart -update")
}
