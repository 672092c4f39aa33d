package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// Schema is the version of Report's JSON. An incompatible change increases the number. firstSchema
// is the previous version, which Report can still read.
const (
	Schema      = "mquine.eval/2"
	firstSchema = "mquine.eval/1"
)

// Report is the result of an evaluation. The JSON lists the fields in this order.
type Report struct {
	Schema string `json:"schema"`

	Provenance Provenance `json:"provenance"`

	// Split names the split that the queries come from. Candidates is the number of entities, which
	// are the candidates before a filter unless Restrictions says otherwise.
	Split        string        `json:"split"`
	Candidates   int           `json:"candidates"`
	Restrictions *Restrictions `json:"restrictions,omitempty"`
	// Protocol is the name of a Protocol, RelationProtocol, or "full" for the sides, filters and
	// tie rules of the options. Every result names its side, filter and tie rule.
	Protocol string `json:"protocol"`
	// Tolerance is the tolerance of the protocol, if any. Deviations count the queries for which
	// the ranks under a tool's protocol differ from exact ranks, or may differ from the tool's.
	Tolerance  *rank.Tolerance `json:"tolerance,omitempty"`
	Deviations []Deviation     `json:"deviations,omitempty"`
	// Estimate describes the errors of the metrics if they are estimates (Restrictions.Sample).
	Estimate *Estimate `json:"estimate,omitempty"`
	// ZConvention is the convention of groups by Z-case, if there are any.
	ZConvention string `json:"z_convention,omitempty"`

	// Results and Groups come from Summarize. RankBounds are the upper bounds of their RankCounts:
	// 1, 2, 3, 5, 10, 20, 50, 100, 200, ….
	RankBounds []int    `json:"rank_bounds,omitempty"`
	Results    []Result `json:"results"`
	Groups     []Result `json:"groups"`
	// Worst, Best and Extremes come from SetExtremes. Extremes says how Worst and Best are ranked. It
	// is nil in files of earlier versions.
	Worst    []RankedQuery `json:"worst,omitempty"`
	Best     []RankedQuery `json:"best,omitempty"`
	Extremes *ExtremesRule `json:"extremes,omitempty"`

	// Queries counts the ranks, and UniqueQueries counts the distinct queries (h, r, ?), (?, r, t) and
	// (h, ?, t).
	Queries       int `json:"queries"`
	UniqueQueries int `json:"unique_queries"`
	// Screen is the arithmetic of the first stage: float32, int8, int16, fp16 on the tensor cores of
	// GPUs, or auto if several were used, float64 among given negatives, and reference for relations.
	Screen string `json:"screen"`
	// Rescored counts the pairs that reached each later stage.
	Rescored rank.Rescored `json:"rescored"`
	Timing   Timing        `json:"timing"`
	// Dropped is the share of all chains that early exit skipped. It is 0 on GPUs, which do not measure it.
	Dropped float64 `json:"dropped_terms"`
	// PeakRSSBytes is the peak resident memory of the process, or 0 if it is unknown.
	PeakRSSBytes int64 `json:"peak_rss_bytes"`

	// FMAGFLOPSAll is the measured fused multiply-add ceiling of all cores, in 10⁹ operations per
	// second. Share is the share of this ceiling that the ranking reached. Both are absent from the
	// JSON if the ceiling was not measured.
	FMAGFLOPSAll float64 `json:"fma_gflops_all,omitempty"`
	Share        float64 `json:"share,omitempty"`
	// GtermsAll is the ceiling of the comparison on all cores, in 10⁹ terms per second.
	// ComparisonShare is the share of this ceiling that the ranking reached, including the terms
	// that early exit skipped. Like Share, both are absent if the ceiling was not measured.
	GtermsAll       float64 `json:"comparison_gterms_all,omitempty"`
	ComparisonShare float64 `json:"comparison_share,omitempty"`
}

// Timing holds wall times in seconds.
type Timing struct {
	// Load is the time to read the graph and the checkpoint.
	Load float64 `json:"load_s"`
	// Pack is the time that the ranking waited for features and panels.
	Pack float64 `json:"pack_s"`
	// Rank is the time from the first query on, without Pack.
	Rank float64 `json:"rank_s"`
	// Decide is the part of Rank for pairs that the first stage left undecided, averaged over the
	// threads. It is 0 on GPUs, which do not measure it.
	Decide float64 `json:"decide_s"`
	// Total is the time from the start of the process until the report is written.
	Total float64 `json:"total_s"`
}

// Summarize sets Queries, UniqueQueries, Results, Groups, RankBounds, ZConvention and the bootstrap of
// Provenance. It returns the errors of the function Summarize.
func (r *Report) Summarize(ctx context.Context, ranks []rank.Rank, o SummaryOptions) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	if err := checkCounted(ranks, o.Filters); err != nil {
		return err
	}
	r.Provenance.Bootstrap, r.ZConvention = bootstrapOf(o.CIBy), zConvention(o.Keys)
	r.Queries, r.UniqueQueries = len(ranks), countQueries(ranks)
	r.RankBounds = rankBounds(largestRank(ranks, o.Filters))
	r.Results, r.Groups, err = Summarize(ctx, ranks, o)
	return err
}

// countQueries returns the number of distinct queries of ranks.
func countQueries(ranks []rank.Rank) int {
	type query struct {
		kg.Triple // with 0 in place of the target
		kg.Side
	}
	distinct := make(map[query]struct{}, len(ranks))
	for i := range ranks {
		q := query{ranks[i].Triple, ranks[i].Side}
		switch q.Side {
		case kg.Tail:
			q.Tail = 0
		case kg.Head:
			q.Head = 0
		case kg.Relation:
			q.Relation = 0
		}
		distinct[q] = struct{}{}
	}
	return len(distinct)
}

// SetStats sets the fields that describe the work of a ranking.
func (r *Report) SetStats(s rank.Stats) {
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
		filled.Groups = []Result{}
	}
	return text.WriteJSON(w, filled)
}

// UnmarshalJSON reads a report of this version or of the first one.
func (r *Report) UnmarshalJSON(text []byte) error {
	type plain Report
	if err := json.Unmarshal(text, (*plain)(r)); err != nil {
		return err
	}
	switch r.Schema {
	case Schema:
		return nil
	case firstSchema:
		return r.Provenance.readFirst(text)
	}
	return fmt.Errorf("the report has schema %.40q, but this mquine reads %s and %s", r.Schema, Schema, firstSchema)
}

// readFirst sets the fields that were at the top level of a report or a comparison of the first
// version.
func (p *Provenance) readFirst(text []byte) error {
	var old struct {
		Data             string     `json:"data"`
		CIBy             Clustering `json:"ci_by"`
		Model            string     `json:"model"`
		Dim              int        `json:"dim"`
		CheckpointSHA256 string     `json:"checkpoint_sha256"`
		Tier             string     `json:"tier"`
		Threads          int        `json:"threads"`
		Machine          string     `json:"machine"`
	}
	if err := json.Unmarshal(text, &old); err != nil {
		return err
	}
	p.Machine = Machine{CPU: old.Machine, Tier: old.Tier, Threads: old.Threads}
	p.Checkpoint = Checkpoint{SHA256: old.CheckpointSHA256, Model: old.Model, Dim: old.Dim}
	p.Data = Data{Name: old.Data}
	p.Bootstrap = bootstrapOf(old.CIBy)
	return nil
}
