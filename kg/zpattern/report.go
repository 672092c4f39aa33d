package zpattern

import (
	"fmt"
	"math/bits"
	"strconv"

	"github.com/mquine/mquine/kg"
)

// Schema names the version of Report's JSON. Incompatible changes increase the number.
const Schema = "mquine.z-stats/1"

// Report counts the triples of a split by their Z-values. Its JSON contains the fields in this
// order.
type Report struct {
	Schema  string   `json:"schema"`
	Data    string   `json:"data"`
	Split   kg.Split `json:"split"`
	Triples int      `json:"triples"`
	// Z counts the triples by n_Z, which is the same on both sides. RankZ counts them by rank_Z.
	Z     Histogram   `json:"z"`
	RankZ []Histogram `json:"rank_z"`
	// Cases contains an item for each side. Relations contains an item for each side and relation,
	// including relations without triples.
	Cases     []CaseCounts     `json:"cases"`
	Relations []RelationCounts `json:"relations"`
}

// CaseCounts counts the triples of each case on one side.
type CaseCounts struct {
	Side       string     `json:"side"`
	Convention Convention `json:"convention"`
	N          int        `json:"n"`
	Easy       int        `json:"easy"`
	Neutral    int        `json:"neutral"`
	Hard       int        `json:"hard"`
}

func (c *CaseCounts) add(v Value) {
	c.N++
	switch v.Case {
	case Easy:
		c.Easy++
	case Neutral:
		c.Neutral++
	case Hard:
		c.Hard++
	}
}

// RelationCounts counts the triples of a relation.
type RelationCounts struct {
	Relation string `json:"relation"`
	CaseCounts
	LargestZ uint64 `json:"largest_z"`
}

// Histogram counts triples by n_Z or rank_Z.
type Histogram struct {
	// Side is the side of the candidates. It is empty for n_Z, which does not depend on the side.
	Side    string `json:"side,omitempty"`
	Largest uint64 `json:"largest"`
	Bins    []Bin  `json:"bins"`
}

// Bin counts the triples whose n_Z or rank_Z is between From and To, inclusive. The bins are 0, 1,
// 2–3, 4–7, …, up to the bin of the largest value.
type Bin struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	N    int    `json:"n"`
}

// emptyBin returns the bin for the values with the given number of binary digits.
func emptyBin(digits int) Bin {
	if digits == 0 {
		return Bin{}
	}
	return Bin{From: 1 << (digits - 1), To: 1<<digits - 1}
}

// String returns the range of the bin, such as "0", "1" or "2-3".
func (b Bin) String() string {
	if b.From == b.To {
		return strconv.FormatUint(b.From, 10)
	}
	return fmt.Sprintf("%d-%d", b.From, b.To)
}

func (h *Histogram) add(number uint64) {
	h.Largest = max(h.Largest, number)
	digits := bits.Len64(number)
	for len(h.Bins) <= digits {
		h.Bins = append(h.Bins, emptyBin(len(h.Bins)))
	}
	h.Bins[digits].N++
}

// Report counts the triples by their values.
func (s *SplitValues) Report() *Report {
	g, triples := s.Graph, s.Graph.Splits[s.Split]
	r := &Report{Schema: Schema, Data: g.Name, Split: s.Split, Triples: len(triples)}
	for _, v := range s.Values[0] {
		r.Z.add(v.Z)
	}
	for i, side := range s.Sides {
		all, ranks := CaseCounts{Side: side.String(), Convention: s.Convention}, Histogram{Side: side.String()}
		relations := make([]RelationCounts, g.Relations.Len())
		for j := range relations {
			relations[j] = RelationCounts{Relation: g.Relations.Label(int32(j)), CaseCounts: all}
		}
		for j, v := range s.Values[i] {
			all.add(v)
			ranks.add(uint64(v.Rank))
			relation := &relations[triples[j].Relation]
			relation.add(v)
			relation.LargestZ = max(relation.LargestZ, v.Z)
		}
		r.Cases = append(r.Cases, all)
		r.RankZ = append(r.RankZ, ranks)
		r.Relations = append(r.Relations, relations...)
	}
	return r
}
