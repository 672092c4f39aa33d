package metrics

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/rank"
)

// Schema is the version of Report's JSON. An incompatible change increases the number.
const Schema = "mquine.eval/1"

// Report is the result of an evaluation. The JSON lists the fields in this order.
type Report struct {
	Schema string `json:"schema"`

	// Data and Split name the data set and the split that the queries come from. Candidates is the
	// number of candidates before a filter.
	Data       string `json:"data"`
	Split      string `json:"split"`
	Candidates int    `json:"candidates"`
	// Protocol is the name of a Protocol, or "full" for the sides, filters and tie rules of the
	// options. Every result names its side, filter and ties.
	Protocol string `json:"protocol"`
	// CIBy is the unit that the intervals resample. Reports of earlier versions lack it; they
	// resampled triples.
	CIBy Clustering `json:"ci_by"`
	// Model is the name of the model, and Dim is its dimension d.
	Model string `json:"model"`
	Dim   int    `json:"dim"`
	// CheckpointSHA256 is the SHA-256 digest of the file with the parameters, in hexadecimal
	// digits.
	CheckpointSHA256 string `json:"checkpoint_sha256"`

	// Tier is the instruction set of the kernels, and Machine is the name of the processor.
	Tier    string `json:"tier"`
	Threads int    `json:"threads"`
	Machine string `json:"machine"`

	// Results and Groups come from Summarize. They include all tie rules unless Protocol.Apply was
	// called.
	Results []Result      `json:"results"`
	Groups  []GroupResult `json:"groups"`
	// ZConvention is the convention of groups by Z-case, if there are any.
	ZConvention string `json:"z_convention,omitempty"`

	// Queries counts the ranks, and UniqueQueries counts the distinct queries (h, r, ?) and (?, r,
	// t).
	Queries       int `json:"queries"`
	UniqueQueries int `json:"unique_queries"`
	// Screen is the arithmetic of the first stage: float32, int8, int16, or auto if several were
	// used.
	Screen string `json:"screen"`
	// Rescored counts the pairs that reached each later stage.
	Rescored rank.Rescored `json:"rescored"`
	Timing   Timing        `json:"timing"`
	// Dropped is the share of all terms that early exit skipped.
	Dropped float64 `json:"dropped_terms"`
	// PeakRSSBytes is the peak resident memory of the process, or 0 if it is unknown.
	PeakRSSBytes int64 `json:"peak_rss_bytes"`

	// FMAGFLOPSAll is the measured fused multiply-add ceiling of all cores, in 10⁹ operations per
	// second. Share is the share of this ceiling that the ranking reached. Both are absent from the
	// JSON if the ceiling was not measured.
	FMAGFLOPSAll float64 `json:"fma_gflops_all,omitempty"`
	Share        float64 `json:"share,omitempty"`
	// GtermsAll is the ceiling of the comparison on all cores, in 10⁹ terms per second.
	// ComparisonShare is the share of this ceiling that the ranking reached, counting the terms
	// that early exit skipped. Like Share, both are absent if the ceiling was not measured.
	GtermsAll       float64 `json:"comparison_gterms_all,omitempty"`
	ComparisonShare float64 `json:"comparison_share,omitempty"`
}

// Timing holds wall times in seconds.
type Timing struct {
	// Load is the time to read the graph and the checkpoint.
	Load float64 `json:"load_s"`
	// Pack is the time to compute the candidates' features and to pack them into panels.
	Pack float64 `json:"pack_s"`
	// Rank is the time from the first query vector to the last count.
	Rank float64 `json:"rank_s"`
	// Decide is the part of Rank for pairs that the first stage left undecided, averaged over the
	// threads.
	Decide float64 `json:"decide_s"`
	// Total is the time from the start of the process to its end.
	Total float64 `json:"total_s"`
}

// Summarize sets Results, Groups, CIBy and ZConvention.
func (r *Report) Summarize(ctx context.Context, ranks []rank.Rank, o SummaryOptions) (err error) {
	r.CIBy, r.ZConvention = o.CIBy, zConvention(o.Keys)
	r.Results, r.Groups, err = Summarize(ctx, ranks, o)
	return err
}

// SetStats sets the fields that describe the work of a ranking.
func (r *Report) SetStats(s rank.Stats) {
	r.Queries, r.UniqueQueries = s.Queries, s.UniqueQueries
	r.Screen, r.Rescored, r.Dropped = s.Screen.String(), s.Rescored, s.Dropped
	r.Timing.Pack, r.Timing.Rank, r.Timing.Decide = s.Pack.Seconds(), s.Rank.Seconds(), s.Decide.Seconds()
}

// WriteJSON sets the schema and writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	filled := *r
	filled.Schema = Schema
	// An empty list is [], not null.
	if filled.Results == nil {
		filled.Results = []Result{}
	}
	if filled.Groups == nil {
		filled.Groups = []GroupResult{}
	}
	return text.WriteJSON(w, filled)
}

// MarshalJSON writes null for NaN.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads null as NaN.
func (n *Number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = undefined
		return nil
	}
	return json.Unmarshal(text, (*float64)(n))
}

// MarshalJSON writes an object with a key for each k, in order.
func (h Hits) MarshalJSON() ([]byte, error) {
	buf := []byte{'{'}
	for i, at := range h {
		share, err := at.Share.MarshalJSON()
		if err != nil {
			return nil, err
		}
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = fmt.Appendf(buf, `"%d":%s`, at.K, share)
	}
	return append(buf, '}'), nil
}

// UnmarshalJSON reads an object that MarshalJSON wrote, and keeps its order.
func (h *Hits) UnmarshalJSON(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return fmt.Errorf("hits: %.40s is not an object of shares", text)
	}
	*h = Hits{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		at := HitsAt{}
		if at.K, err = strconv.Atoi(key.(string)); err != nil {
			return fmt.Errorf("hits: the cut-off %q is not a whole number", key)
		}
		if err := dec.Decode(&at.Share); err != nil {
			return err
		}
		*h = append(*h, at)
	}
	return nil
}
