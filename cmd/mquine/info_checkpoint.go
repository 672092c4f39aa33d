package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/mquine/mquine/model/checkpoint"
)

// checkpointInfo is the result of `mquine info CKPT` for machines.
type checkpointInfo struct {
	Schema string `json:"schema"`
	*checkpoint.Inspection
	// Problem says why the checkpoint cannot be evaluated; empty if it can.
	Problem string `json:"problem,omitempty"`
}

func describeCheckpoint(ctx context.Context, dir string) (*checkpointInfo, error) {
	inspection, err := checkpoint.Inspect(ctx, dir)
	if err != nil {
		return nil, err
	}
	info := &checkpointInfo{Schema: "mquine.checkpoint-info/1", Inspection: inspection}
	if c, err := checkpoint.Open(ctx, dir); ctx.Err() != nil {
		return nil, ctx.Err()
	} else if err != nil {
		info.Problem = oneLine(err)
	} else {
		defer c.Close()
		if err := c.Verify(ctx); err != nil {
			return nil, err
		}
	}
	return info, nil
}

func (c *checkpointInfo) print(w *bytes.Buffer) {
	t := newTable()
	t.AppendRow(table.Row{"file", fmt.Sprintf("%s, %s", c.Path, humanize.IBytes(uint64(c.Bytes)))})
	t.AppendRow(table.Row{"sha256", c.SHA256})
	for _, key := range slices.Sorted(maps.Keys(c.Metadata)) {
		t.AppendRow(table.Row{key, strconv.Quote(c.Metadata[key])})
	}
	fmt.Fprintf(w, "%s\n\n", t.Render())

	// The columns are of finite values, the norms of finite rows.
	t = newTable(3, 4, 5, 6, 7, 8, 9, 10, 11)
	t.AppendHeader(table.Row{"tensor", "type", "shape", "NaN", "Inf", "min", "max", "rms", "row norms: min", "median", "max"})
	for _, tensor := range c.Tensors {
		row := table.Row{tensor.Name, tensor.DType, shapeText(tensor.Shape)}
		if v := tensor.Values; v != nil {
			row = append(row, comma(v.NaN), comma(v.Inf))
			for _, x := range []float64{v.Min, v.Max, v.RMS, v.RowNorms.Min, v.RowNorms.Median, v.RowNorms.Max} {
				row = append(row, strconv.FormatFloat(x, 'g', 4, 64))
			}
		}
		t.AppendRow(row)
	}
	fmt.Fprintf(w, "%s\n\n", t.Render())
	if c.Problem == "" {
		fmt.Fprintln(w, "All values are finite, and mquine eval takes the checkpoint.")
	} else {
		fmt.Fprintf(w, "mquine eval refuses the checkpoint: %s\n", c.Problem)
	}
}

func shapeText(shape []int) string {
	if len(shape) == 0 {
		return "scalar"
	}
	return strings.Join(names(shape), "×")
}
