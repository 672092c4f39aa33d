package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/metrics/classify"
	"github.com/mquine/mquine/rank"
)

// splitNames names splits, such as "valid+test", or is "unknown". It is empty, and null in JSON, if a
// missing split leaves the answer open.
type splitNames string

func (n splitNames) MarshalJSON() ([]byte, error) {
	if n == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(n))
}

// knownIn names the splits of a set. complete reports whether the data set has all three splits.
func knownIn(set kg.SplitSet, complete bool) splitNames {
	var list []string
	for s := range kg.NumSplits {
		if set.Has(s) {
			list = append(list, s.String())
		}
	}
	if list == nil && complete {
		return "unknown"
	}
	return splitNames(strings.Join(list, "+"))
}

// scores is the JSON result of score.
type scores struct {
	Schema     string             `json:"schema"`
	Provenance metrics.Provenance `json:"provenance"`
	// Formula is the formula of the score. Better says which scores are better: higher.
	Formula string `json:"formula"`
	Better  string `json:"better"`
	// Side is the side of the queries to which the triples are answers, or "both" for means of two scores.
	Side string `json:"side"`
	// Filter and Ties give the protocol of the ranks. They are empty without ranks.
	Filter  string         `json:"filter,omitempty"`
	Ties    string         `json:"ties,omitempty"`
	Triples []scoredTriple `json:"triples"` // empty: the triples are streamed

	triples      iter.Seq2[scoredTriple, error]
	all          iter.Seq[scoredTriple] // triples up to the first error; the iteration sets failed
	failed       error
	known, ranks bool
	explanation  []string              // sentences about the score
	calibration  *classify.Calibration // nil without --calibration
	labels       map[string]string     // nil without labels.tsv
}

// scoredTriple is a triple with its score.
type scoredTriple struct {
	Head     string  `json:"head"`
	Relation string  `json:"relation"`
	Tail     string  `json:"tail"`
	Score    float64 `json:"score"`
	// Probability is nil without a calibration.
	Probability *float64 `json:"probability,omitempty"`
	// Known names the splits with the triple. It is nil without a data set.
	Known *splitNames `json:"known,omitempty"`
	// TailRank and HeadRank are nil without ranks.
	TailRank *float64 `json:"tail_rank,omitempty"`
	HeadRank *float64 `json:"head_rank,omitempty"`
	// The following fields are the readable names of the head, the relation and the tail, from
	// labels.tsv.
	HeadLabel     string `json:"head_label,omitempty"`
	RelationLabel string `json:"relation_label,omitempty"`
	TailLabel     string `json:"tail_label,omitempty"`
}

// print writes the result to the file of --json and, in the format of --format, to out. It does not
// keep the triples in memory unless the format needs them. If the triples end with an error, print
// sets failed, writes no file and prints no table.
func (r *scores) print(ctx context.Context, out io.Writer, p *printed) error {
	next, stop := iter.Pull2(r.triples)
	defer stop()
	// Without a first triple, print nothing, not even a header.
	t, err, more := next()
	if r.failed = err; err != nil {
		return err
	}
	r.all = func(yield func(scoredTriple) bool) {
		for ; more; t, err, more = next() {
			if r.failed = err; err != nil || !yield(t) {
				return
			}
		}
	}
	switch p.jsonFile {
	case "":
		return r.printTo(ctx, out, p)
	case "-":
		return writeTo(ctx, out, "-", r.stream)
	}
	// Scoring takes a long time, so neither output needs the other one.
	var failed error
	err = writeTo(ctx, out, p.jsonFile, func(file io.Writer) error {
		stream, err := r.begin(file)
		all, printing := r.all, true
		r.all = func(yield func(scoredTriple) bool) {
			for t := range all {
				if err == nil {
					err = stream.add(t)
				}
				if printing = printing && yield(t); !printing && err != nil {
					return
				}
			}
		}
		failed = r.printTo(ctx, out, p)
		if err = cmp.Or(r.failed, err); err != nil {
			return err
		}
		return stream.end()
	})
	return errors.Join(err, failed)
}

// printTo prints the result in the format of --format.
func (r *scores) printTo(ctx context.Context, out io.Writer, p *printed) error {
	switch p.format {
	case text.FormatJSON:
		return writeTo(ctx, out, "-", r.stream)
	case text.FormatCSV, text.FormatTSV:
	default:
		list := slices.Collect(r.all)
		if r.failed != nil {
			return r.failed
		}
		r.all = slices.Values(list)
	}
	return p.printTo(out, r)
}

// stream writes the JSON result.
func (r *scores) stream(w io.Writer) error {
	stream, err := r.begin(w)
	if err != nil {
		return err
	}
	for t := range r.all {
		if err := stream.add(t); err != nil {
			return err
		}
	}
	if r.failed != nil {
		return r.failed
	}
	return stream.end()
}

// begin writes the JSON result to w up to the triples.
func (r *scores) begin(w io.Writer) (*tripleStream, error) {
	var start bytes.Buffer
	if err := text.WriteJSON(&start, r); err != nil {
		return nil, err
	}
	_, err := w.Write(bytes.TrimSuffix(start.Bytes(), []byte("]\n}\n")))
	return &tripleStream{w: w}, err
}

// tripleStream writes the rest of the JSON result, one triple per line.
type tripleStream struct {
	w    io.Writer
	more bool
}

func (s *tripleStream) add(t scoredTriple) error {
	line, err := json.Marshal(t)
	if err != nil {
		return err
	}
	start := "\n    "
	if s.more {
		start = ",\n    "
	}
	s.more = true
	_, err = io.WriteString(s.w, start+string(text.JSON(line)))
	return err
}

func (s *tripleStream) end() error {
	_, err := io.WriteString(s.w, "\n  ]\n}\n")
	return err
}

func (r *scores) tables() []*text.Table {
	numbers := []int{4}
	header := []any{"head", "relation", "tail", "score"}
	if r.calibration != nil {
		header = append(header, "probability")
		numbers = append(numbers, len(header))
	}
	if r.known {
		header = append(header, "known")
	}
	if r.ranks {
		header = append(header, "tail rank", "head rank")
		numbers = append(numbers, len(header)-1, len(header))
	}
	t := text.NewTable(numbers...)
	t.Caption = r.caption()
	t.AppendHeader(header)
	for s := range r.all {
		row := []any{
			withLabel(s.Head, r.labels), withLabel(s.Relation, r.labels), withLabel(s.Tail, r.labels),
			strconv.FormatFloat(s.Score, 'g', 7, 64),
		}
		if r.calibration != nil {
			row = append(row, strconv.FormatFloat(*s.Probability, 'f', 4, 64))
		}
		if r.known {
			row = append(row, cmp.Or(string(*s.Known), unknown))
		}
		if r.ranks {
			row = append(row, formatRank(*s.TailRank), formatRank(*s.HeadRank))
		}
		t.AppendRow(row)
	}
	return []*text.Table{t}
}

// caption describes the scores without their formula, whose characters LaTeX may lack.
func (r *scores) caption() string {
	return strings.Join(append([]string{
		fmt.Sprintf("Scores of %s. Higher is better.", r.Provenance.Checkpoint.ModelText()),
	}, r.protocol()...), " ")
}

func (r *scores) remarks() []string {
	return slices.Concat(r.explanation, []string{"Higher is better."}, r.protocol())
}

// protocol says which queries, filter, tie rule and calibration the numbers belong to.
func (r *scores) protocol() []string {
	lines := []string{map[string]string{
		rank.TailSide.String():  "Scores as answers to (h, r, ?).",
		rank.HeadSide.String():  "Scores as answers to (?, r, t).",
		rank.BothSides.String(): "Scores: the mean of the scores as answers to (h, r, ?) and to (?, r, t).",
	}[r.Side]}
	if r.ranks {
		lines = append(lines, fmt.Sprintf("Ranks: filter %s, %s ties.", r.Filter, r.Ties))
	}
	if r.calibration != nil {
		lines = append(lines, fmt.Sprintf("Probabilities: %v calibration.", r.calibration.Method))
	}
	return lines
}

func (r *scores) records() (header []string, rows iter.Seq[[]string]) {
	header = []string{"head", "relation", "tail", "score"}
	if r.calibration != nil {
		header = append(header, "probability")
	}
	if r.known {
		header = append(header, "known")
	}
	if r.ranks {
		header = append(header, "tail_rank", "head_rank")
	}
	if r.labels != nil {
		header = append(header, labelColumns...)
	}
	return header, func(yield func([]string) bool) {
		for s := range r.all {
			row := []string{s.Head, s.Relation, s.Tail, strconv.FormatFloat(s.Score, 'g', -1, 64)}
			if r.calibration != nil {
				row = append(row, strconv.FormatFloat(*s.Probability, 'g', -1, 64))
			}
			if r.known {
				row = append(row, string(*s.Known))
			}
			if r.ranks {
				row = append(row, formatRank(*s.TailRank), formatRank(*s.HeadRank))
			}
			if r.labels != nil {
				row = append(row, s.HeadLabel, s.RelationLabel, s.TailLabel)
			}
			if !yield(row) {
				return
			}
		}
	}
}

// formatRank formats a rank, which may end in .5.
func formatRank(r float64) string { return strconv.FormatFloat(r, 'f', -1, 64) }
