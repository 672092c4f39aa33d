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

// Schema is the version of the JSON of Report. A change that could break a reader of it changes
// the number.
const Schema = "mquine.eval/1"

// Report is the result of an evaluation: what was ranked, with what, and the outcome. The JSON has the fields in this
// order.
type Report struct {
	Schema string `json:"schema"`

	// Data and Split name the queries, Candidates counts the entities that they are ranked
	// among before a filter.
	Data       string `json:"data"`
	Split      string `json:"split"`
	Candidates int    `json:"candidates"`
	// Protocol is "full", the sides, filters and tie rules that were asked for, or the name of a Protocol. Every
	// result names its own sides, filter and ties.
	Protocol string `json:"protocol"`
	// CIBy is what the intervals resample. Reports that do not say resampled triples.
	CIBy Clustering `json:"ci_by"`
	// Model is the name of the score function, Dim its size d.
	Model string `json:"model"`
	Dim   int    `json:"dim"`
	// CheckpointSHA256 is the sum of the file of the parameters, in hexadecimal digits.
	CheckpointSHA256 string `json:"checkpoint_sha256"`

	// Tier is the instruction set that did the screening, Machine the processor in words.
	Tier    string `json:"tier"`
	Threads int    `json:"threads"`
	Machine string `json:"machine"`

	// Results and Groups come from Summarize, and have every tie rule unless a Protocol was applied.
	Results []Result      `json:"results"`
	Groups  []GroupResult `json:"groups"`
	// ZConvention is the convention of the groups by z-case, if there are any.
	ZConvention string `json:"z_convention,omitempty"`

	// Queries counts the ranks, UniqueQueries the different (h, r, ?) and (?, r, t) among them.
	Queries       int `json:"queries"`
	UniqueQueries int `json:"unique_queries"`
	// Screen is the arithmetic of the first stage: float32, int8, int16, or auto where several occurred.
	Screen string `json:"screen"`
	// Rescored counts the pairs that each stage after the first had to decide.
	Rescored rank.Rescored `json:"rescored"`
	Timing   Timing        `json:"timing"`
	// Dropped is the share of the terms of all comparisons that early exit passed over.
	Dropped float64 `json:"dropped_terms"`
	// PeakRSSBytes is the largest resident memory of the process, 0 where it is not known.
	PeakRSSBytes int64 `json:"peak_rss_bytes"`

	// FMAGFLOPSAll is the measured fused multiply-add ceiling of all cores in 10⁹ operations a
	// second, and Share the part of it that the ranking reached; both are 0, and absent from
	// the JSON, where the ceiling was not measured.
	FMAGFLOPSAll float64 `json:"fma_gflops_all,omitempty"`
	Share        float64 `json:"share,omitempty"`
	// GtermsAll is the rate of the comparison's own operations on registers alone, all cores, in 10⁹
	// terms of scores a second, and ComparisonShare the part of it that the ranking reached, terms
	// that early exit passed over included; absent like Share.
	GtermsAll       float64 `json:"comparison_gterms_all,omitempty"`
	ComparisonShare float64 `json:"comparison_share,omitempty"`
}

// Timing holds wall times in seconds.
type Timing struct {
	// Load reads the graph and the checkpoint.
	Load float64 `json:"load_s"`
	// Pack makes the candidates' features and packs them into panels.
	Pack float64 `json:"pack_s"`
	// Rank is the time from the first query vector to the last integer.
	Rank float64 `json:"rank_s"`
	// Decide is the part of Rank for what the first stage left undecided, a mean over threads.
	Decide float64 `json:"decide_s"`
	// Total is the time from the start of the process to its end.
	Total float64 `json:"total_s"`
}

// Summarize fills in Results and Groups, and what they rest on, CIBy and ZConvention.
func (r *Report) Summarize(ctx context.Context, ranks []rank.Rank, o SummaryOptions) (err error) {
	r.CIBy, r.ZConvention = o.CIBy, zConvention(o.Keys)
	r.Results, r.Groups, err = Summarize(ctx, ranks, o)
	return err
}

// SetStats fills in what a ranking tells about itself.
func (r *Report) SetStats(s rank.Stats) {
	r.Queries, r.UniqueQueries = s.Queries, s.UniqueQueries
	r.Screen, r.Rescored, r.Dropped = s.Screen.String(), s.Rescored, s.Dropped
	r.Timing.Pack, r.Timing.Rank, r.Timing.Decide = s.Pack.Seconds(), s.Rank.Seconds(), s.Decide.Seconds()
}

// WriteJSON writes the report as JSON. Schema is filled in.
func (r *Report) WriteJSON(w io.Writer) error {
	filled := *r
	filled.Schema = Schema
	// A list without items is a list, not null.
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

// UnmarshalJSON reads the object that MarshalJSON writes, and keeps its order.
func (h *Hits) UnmarshalJSON(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return fmt.Errorf("hits: want an object of shares, have %.40s", text)
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
