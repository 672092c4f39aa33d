package main

import (
	"context"
	"errors"
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
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/model/checkpoint/formats"
	"github.com/mquine/mquine/train/recipe"
)

// checkpointInfo is the JSON result of `mquine info CKPT`.
type checkpointInfo struct {
	Schema string `json:"schema"`
	// Tool names the tool that wrote the checkpoint, and Origin the tool from which the parameters were
	// imported. Protocol is the protocol of evaluation of the other tool. All three are empty for
	// checkpoints that mquine trained.
	Tool     string `json:"tool,omitempty"`
	Origin   string `json:"imported_from,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	evaluated
	// Problem says why the checkpoint cannot be evaluated, or is empty.
	Problem string `json:"problem,omitempty"`
	*checkpoint.Inspection
}

// evaluated describes what mquine eval reads. It is empty if eval refuses the checkpoint.
type evaluated struct {
	Model      string `json:"model,omitempty"`
	Dim        int    `json:"dim,omitempty"`
	Entities   int    `json:"entities,omitempty"`
	Relations  int    `json:"relations,omitempty"`
	Reciprocal bool   `json:"reciprocal,omitempty"`
	// InverseWeight is the weight of the inverse triple in the score (model.Config).
	InverseWeight float64            `json:"inverse_weight,omitempty"`
	Parameters    int                `json:"parameters,omitempty"`
	Hyper         map[string]float64 `json:"hyper,omitempty"`
	Dataset       string             `json:"dataset,omitempty"`
	// VocabularyDir is the folder with the labels.
	VocabularyDir string   `json:"vocabulary_dir,omitempty"`
	Notes         []string `json:"notes,omitempty"`
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
	if f := formats.Lookup(inspection.Format); f != nil {
		info.Tool, info.Protocol = f.Tool, f.Protocol
	}
	c, err := checkpoint.Open(ctx, dir, checkpoint.VocabularyFolder(vocabulary))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, new(formats.GivenError)):
		return nil, err
	case err != nil:
		info.Problem = oneLine(err)
		return info, nil
	}
	defer c.Close()
	if err := c.Verify(ctx); err != nil {
		return nil, err
	}
	if f := formats.Lookup(c.Tool()); f != nil && f.Name != c.Format && f.Protocol != "" {
		info.Origin, info.Protocol = f.Tool, f.Protocol // not for an export of mquine, which has no protocol
	}
	config := c.Model.Config()
	info.evaluated = evaluated{
		Model: config.Model, Dim: config.Dim, Entities: config.Entities, Relations: config.Relations,
		Reciprocal: config.Reciprocal, InverseWeight: config.InverseWeight, Hyper: config.Hyper,
		VocabularyDir: c.VocabularyDir, Notes: c.Notes,
	}
	if c.Dataset != checkpoint.UnknownDataset {
		info.Dataset = c.Dataset
	}
	for _, values := range c.Model.Tensors() {
		info.Parameters += len(values)
	}
	return info, nil
}

// summary describes the file, the tool, the model, the size and the protocol.
func (c *checkpointInfo) summary() (pairs [][2]string) {
	add := func(name, format string, args ...any) {
		pairs = append(pairs, [2]string{name, fmt.Sprintf(format, args...)})
	}
	add("file", "%s, %s", c.Path, humanize.IBytes(uint64(c.Bytes)))
	add("sha256", "%s", c.SHA256)
	if c.Tool == "" {
		add("format", "%s", c.Format)
	} else {
		add("written by", "%s", c.Tool)
	}
	if c.Origin != "" {
		add("imported from", "%s", c.Origin)
	}
	if c.Model != "" {
		with := ""
		if c.Reciprocal {
			with = ", with reciprocal relations"
		}
		if c.InverseWeight != 0 {
			with += fmt.Sprintf(" and inverse_weight %v", c.InverseWeight)
		}
		add("model", "%s, d = %d%s", c.Model, c.Dim, with)
		for _, key := range slices.Sorted(maps.Keys(c.Hyper)) {
			add(key, "%.6g", c.Hyper[key])
		}
		add("size", "%s, %s", sizes(c.Entities, c.Relations), text.Plural(c.Parameters, "parameter"))
		if c.Dataset != "" {
			add("trained on", "%s", c.Dataset)
		}
		add("vocabularies", "in %s", c.VocabularyDir)
	}
	if i := slices.IndexFunc(metrics.Protocols, func(p metrics.Protocol) bool { return p.Name == c.Protocol }); i >= 0 {
		p := metrics.Protocols[i]
		add("protocol", "--protocol %s: %v sides, filter %v, %v ties", p.Name, p.Sides, p.Filter, p.Ties)
	}
	return pairs
}

// metadata returns the metadata below a header. It shortens long names and values.
func (c *checkpointInfo) metadata() [][2]string {
	pairs := [][2]string{{"metadata", "value"}}
	for _, key := range slices.Sorted(maps.Keys(c.Metadata)) {
		name, nameMore := beginning(key)
		value := c.Metadata[key]
		if key == "training" { // package run writes it
			value = currentNames(value)
		}
		value, more := beginning(value)
		pairs = append(pairs, [2]string{name + nameMore, strconv.Quote(value) + more})
	}
	return pairs
}

func (c *checkpointInfo) print(w io.Writer) {
	fmt.Fprintf(w, "%s\n\n", text.Pairs(c.summary()))
	for _, note := range c.Notes {
		fmt.Fprintf(w, "%s\n\n", text.Wrap("note: "+text.Escape(note)))
	}
	if len(c.Metadata) > 0 {
		fmt.Fprintf(w, "%s\n\n", text.Pairs(c.metadata()))
	}

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
		fmt.Fprintln(w, "mquine eval refuses the checkpoint. The error message says why.")
	}
}

// beginning returns the first thousand bytes of s and, if s is longer, a remark with its length.
func beginning(s string) (start, more string) {
	const most = 1000
	if len(s) <= most {
		return s, ""
	}
	n := most
	for !utf8.RuneStart(s[n]) { // a header is valid UTF-8
		n--
	}
	return s[:n], fmt.Sprintf(" … (%s bytes in total)", text.Comma(len(s)))
}

// currentNames returns the options of a training run (recipe.Recipe.Line) with the names that options
// and values have now. It returns any other text unchanged.
func currentNames(line string) string {
	r, err := recipe.ParseLine(line)
	if err != nil {
		return line
	}
	parts := strings.Fields(line)
	for i, part := range parts {
		key, _, _ := strings.Cut(part, "=")
		for _, o := range r.Options() {
			if o.Key == key || o.FormerKey == key {
				parts[i] = o.Key + "=" + o.Value.String()
			}
		}
	}
	return strings.Join(parts, " ")
}

// short returns x as text with four significant digits.
func short(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }

func shapeText(shape []int) string {
	if len(shape) == 0 {
		return "scalar"
	}
	return strings.Join(names(shape), "×")
}
