package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/model/checkpoint"
)

// checkpointInfo is the JSON result of `mquine info CKPT`.
type checkpointInfo struct {
	Schema string `json:"schema"`
	*checkpoint.Inspection
	// VocabularyDir is the folder with the labels. It is empty if the checkpoint cannot be
	// evaluated.
	VocabularyDir string `json:"vocabulary_dir,omitempty"`
	// Problem says why the checkpoint cannot be evaluated, or is empty.
	Problem string `json:"problem,omitempty"`
}

func describeCheckpoint(ctx context.Context, log io.Writer, path, vocabulary string) (*checkpointInfo, error) {
	dir, err := findCheckpoint(ctx, log, path)
	if err != nil {
		return nil, err
	}
	inspection, err := checkpoint.Inspect(ctx, dir)
	if err != nil {
		return nil, err
	}
	info := &checkpointInfo{Schema: "mquine.checkpoint-info/1", Inspection: inspection}
	if c, err := checkpoint.Open(ctx, dir, checkpoint.VocabularyFolder(vocabulary)); ctx.Err() != nil {
		return nil, ctx.Err()
	} else if err != nil {
		info.Problem = oneLine(err)
	} else {
		defer c.Close()
		if err := c.Verify(ctx); err != nil {
			return nil, err
		}
		info.VocabularyDir = c.VocabularyDir
	}
	return info, nil
}

func (c *checkpointInfo) print(w io.Writer) {
	t := text.NewTable()
	t.AppendRow(table.Row{"file", fmt.Sprintf("%s, %s", c.Path, humanize.IBytes(uint64(c.Bytes)))})
	t.AppendRow(table.Row{"sha256", c.SHA256})
	if c.VocabularyDir != "" {
		t.AppendRow(table.Row{"vocabularies", "in " + c.VocabularyDir})
	}
	for _, key := range slices.Sorted(maps.Keys(c.Metadata)) {
		name, nameMore := beginning(key)
		value, more := beginning(c.Metadata[key])
		t.AppendRow(table.Row{name + nameMore, strconv.Quote(value) + more})
	}
	fmt.Fprintf(w, "%s\n\n", t.Render())

	// Minimum, maximum and rms cover the finite values, and the norms cover the finite rows.
	values := text.NewTable(3, 4, 5, 6, 7, 8)
	values.AppendHeader(table.Row{"tensor", "type", "shape", "NaN", "Inf", "min", "max", "rms"})
	norms := text.NewTable(2, 3, 4)
	norms.AppendHeader(table.Row{"norms of rows", "min", "median", "max"})
	for _, tensor := range c.Tensors {
		name, more := beginning(tensor.Name)
		row := table.Row{name + more, tensor.DType, shapeText(tensor.Shape)}
		if v := tensor.Values; v != nil {
			row = append(row, text.Comma(v.NaN), text.Comma(v.Inf), short(v.Min), short(v.Max), short(v.RMS))
			if len(tensor.Shape) > 1 {
				n := v.RowNorms
				norms.AppendRow(table.Row{name + more, short(n.Min), short(n.Median), short(n.Max)})
			}
		}
		values.AppendRow(row)
	}
	for _, t := range []*text.Table{values, norms} {
		if t.Len() > 0 {
			_ = t.Write(w, text.FormatTable) // to a buffer
			fmt.Fprintln(w)
		}
	}
	if c.Problem == "" {
		fmt.Fprintln(w, "All values are finite, and mquine eval accepts the checkpoint.")
	} else {
		printLine(w, "mquine eval refuses the checkpoint: %s", c.Problem)
	}
}

// beginning returns the first few hundred bytes of s and, if s is longer, a remark with its length.
func beginning(s string) (start, more string) {
	const most = 500
	if len(s) <= most {
		return s, ""
	}
	n := most
	for !utf8.RuneStart(s[n]) { // a header is valid UTF-8
		n--
	}
	return s[:n], fmt.Sprintf(" … (%s bytes in total)", text.Comma(len(s)))
}

// short returns x as text with four significant digits.
func short(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }

func shapeText(shape []int) string {
	if len(shape) == 0 {
		return "scalar"
	}
	return strings.Join(names(shape), "×")
}
