package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
)

// ties returns the tie rule of the headline figures: the rule of --ties. Files of earlier versions do not
// state it, which stands for realistic. If no result has this rule, it is the rule of the first result.
func (e Evaluation) ties() rank.Ties {
	chosen := rank.Realistic
	if e.Extremes != nil {
		chosen = e.Extremes.Ties
	}
	if !slices.ContainsFunc(e.Results, func(r metrics.Result) bool { return r.Ties == chosen }) {
		return e.Results[0].Ties
	}
	return chosen
}

// results returns the results under a tie rule.
func (e Evaluation) results(ties rank.Ties) []metrics.Result {
	return slices.DeleteFunc(slices.Clone(e.Results), func(r metrics.Result) bool { return r.Ties != ties })
}

// headline returns the result whose protocol the section shows in detail: the last filter and side.
func (e Evaluation) headline() metrics.Result {
	all := e.results(e.ties())
	return all[len(all)-1]
}

// section returns the section of an evaluation.
func (e Evaluation) section(id string) section {
	h := e.headline()
	s := section{
		ID: id, Lead: e.lead(h), Tiles: tiles(h),
		Title: fmt.Sprintf("%s: %s on %s, %s split", e.Name, modelOf(e.Provenance.Checkpoint),
			e.Provenance.Data.Name, e.Split),
	}
	s.add(e.protocols())
	s.add(e.distribution(h))
	for _, set := range e.groupSets(h) {
		s.add(set.part())
	}
	s.add(e.extremes(h))
	s.add(e.origin())
	return s
}

// add appends a part that has content.
func (s *section) add(p part) {
	if len(p.Tables)+len(p.Charts)+len(p.Facts) == 0 {
		return
	}
	p.ID = fmt.Sprintf("%s-%d", s.ID, len(s.Parts)+1)
	for i := range p.Tables {
		p.Tables[i].Plain = p.Tables[i].Caption == p.Title
	}
	s.Parts = append(s.Parts, p)
}

// protocolName describes the protocol of a result.
func protocolName(side rank.Sides, filter rank.Filter, ties rank.Ties) string {
	sides := fmt.Sprintf("side %v", side)
	if side == rank.BothSides {
		sides = "both sides"
	}
	return fmt.Sprintf("%s, filter %v, %v ties", sides, filter, ties)
}

// queries describes the queries of a result and their candidates.
func (e Evaluation) queries(h metrics.Result) string {
	among, candidates := " among ", e.Restrictions.Describe(h.Side, e.Candidates)
	if strings.HasPrefix(candidates, "tails among ") { // the sides have different candidates
		among = ", "
	}
	if left := e.Provenance.Data.LeftOut.Of(e.Split); left != "" {
		candidates += ", without " + left
	}
	return text.Plural(h.N, "query") + among + candidates
}

// restrictions returns a text that is equal for equal restrictions. If the contents of a file are known
// by their checksum, the name of the file does not matter.
func (e Evaluation) restrictions() string {
	if e.Restrictions == nil {
		return ""
	}
	r := *e.Restrictions
	for _, side := range []**metrics.Restriction{&r.Tail, &r.Head} {
		if *side == nil || (*side).SHA256 == "" || (*side).Kind == metrics.TypedCandidates {
			continue
		}
		unnamed := **side
		unnamed.Names = nil
		*side = &unnamed
	}
	encoded, _ := json.Marshal(r) // a struct of text and numbers
	return string(encoded)
}

// lead sums up the headline result.
func (e Evaluation) lead(h metrics.Result) string {
	lead := fmt.Sprintf("%s: %s.", e.queries(h), protocolName(h.Side, h.Filter, h.Ties))
	for _, note := range e.ProtocolNotes() {
		lead += " " + capital(note)
	}
	if e.Estimate != nil && !e.Estimate.Exact {
		lead += " The figures are estimates: only MR, AMR and AMRI are unbiased. The MRR is too high on average, and " +
			"its interval does not include this bias."
	}
	var shares []string
	for _, at := range h.Hits {
		switch {
		case !defined(at.Share):
		case at.K == 1:
			shares = append(shares, "first for "+percent(at.Share)+" of the queries")
		case len(shares) == 0:
			shares = append(shares, fmt.Sprintf("among the first %d for %s of the queries", at.K, percent(at.Share)))
		default:
			shares = append(shares, fmt.Sprintf("among the first %d for %s", at.K, percent(at.Share)))
		}
	}
	if n := len(shares); n > 2 {
		shares = []string{shares[0], shares[n-1]}
	}
	if len(shares) > 0 {
		lead += " The true answer is " + strings.Join(shares, ", and ") + "."
	}
	if defined(h.Median) {
		lead += " The median rank is " + rankNumber(h.Median) + "."
	}
	return lead
}

// tiles returns the headline figures.
func tiles(h metrics.Result) []tile {
	mrr := tile{"MRR", number(h.MRR, 4), meanInterval(h.MRR, h.MRRCI, h.ClusterCount)}
	if defined(h.MRRCI[0]) {
		mrr.Note = "95% interval " + mrr.Note
	}
	t := []tile{mrr}
	for _, at := range h.Hits {
		t = append(t, tile{fmt.Sprintf("Hits@%d", at.K), number(at.Share, 4), ""})
	}
	mr := tile{"Mean rank", number(h.MR, 2), ""}
	if defined(h.AMRI) {
		mr.Note = "adjusted index (AMRI) " + number(h.AMRI, 4)
	}
	return append(t, mr)
}

// protocols returns the metrics by filter and side.
func (e Evaluation) protocols() part {
	p := part{Title: "Metrics by protocol", Tables: []table{e.matrix(e.ties())}}
	for _, ties := range []rank.Ties{rank.Optimistic, rank.Realistic, rank.Rounded, rank.Pessimistic} {
		if ties != e.ties() && len(e.results(ties)) > 0 {
			p.Folded = append(p.Folded, folded{fmt.Sprintf("With %v ties", ties), e.matrix(ties)})
		}
	}
	ranks := map[rank.Ties]string{
		rank.Optimistic: "before", rank.Pessimistic: "after", rank.Realistic: "in the middle of",
		rank.Rounded: "on a whole rank in the middle of",
	}
	p.Text = fmt.Sprintf("A filter removes known answers from the candidates: no answers (none), the answers in the "+
		"training split (train), or the answers in all splits (all). With %v ties, the true answer ranks %s the "+
		"candidates with the same score. Intervals of the MRR are 95%% bootstrap intervals, which resample by %v.",
		e.ties(), ranks[e.ties()], e.Provenance.Bootstrap.By)
	return p
}

// matrix returns the table of results under a tie rule.
func (e Evaluation) matrix(ties rank.Ties) table {
	results := e.results(ties)
	ks := cutOffs(results[0].Hits)
	var mrrs []float64
	for _, r := range results {
		mrrs = append(mrrs, float64(r.MRR), float64(r.MRRCI[1]))
	}
	scale := shareScale(mrrs...)
	t := table{
		Caption: fmt.Sprintf("Metrics by filter and side, %v ties", ties),
		Columns: slices.Concat(textColumns("Filter", "Side"), []column{scale.column("MRR")},
			numberColumns("MRR", "95% interval"), numberColumns(hitsNames(ks)...),
			numberColumns("MR", "Median", "GMR", "AMR", "AMRI", "Queries")),
	}
	for _, r := range results {
		row := texts(r.Filter.String(), r.Side.String())
		row = append(row, cell{Strip: scale.bar(r.MRR, r.MRRCI)})
		row = append(row, texts(number(r.MRR, 4), meanInterval(r.MRR, r.MRRCI, r.ClusterCount))...)
		for _, k := range ks {
			row = append(row, texts(number(hitsOf(r.Hits, k), 4))...)
		}
		row = append(row, texts(number(r.MR, 2), rankNumber(r.Median), number(r.GMR, 2), number(r.AMR, 4),
			number(r.AMRI, 4), text.Comma(r.N))...)
		t.Rows = append(t.Rows, row)
	}
	return t
}

// extremes returns the queries with the highest and the lowest ranks.
func (e Evaluation) extremes(h metrics.Result) part {
	// eval ranks them under the last filter and tie rule, which files of earlier versions do not state.
	last := e.Results[len(e.Results)-1]
	filter, ties := last.Filter, last.Ties
	if e.Extremes != nil {
		filter, ties = e.Extremes.Filter, e.Extremes.Ties
	}
	p := part{
		Title: "Worst and best queries",
		Text: fmt.Sprintf("These individual queries have the highest and the lowest ranks, %s. The target is in bold.",
			protocolName(h.Side, filter, ties)),
	}
	for _, list := range []struct {
		caption string
		queries []metrics.RankedQuery
	}{{"Highest ranks", e.Worst}, {"Lowest ranks", e.Best}} {
		if len(list.queries) == 0 {
			continue
		}
		t := table{
			Caption: list.caption,
			Columns: append(numberColumns("Rank"), targetColumns()...),
		}
		for _, q := range list.queries {
			t.Rows = append(t.Rows, append(texts(rankNumber(metrics.Number(q.Rank))), targetCells(q.Side,
				cell{Text: q.Head, Note: q.HeadLabel}, cell{Text: q.Relation, Note: q.RelationLabel},
				cell{Text: q.Tail, Note: q.TailLabel})...))
		}
		p.Tables = append(p.Tables, t)
	}
	return p
}

// targetColumns returns the columns of targetCells.
func targetColumns() []column { return textColumns("Head", "Relation", "Tail", "Target") }

// targetCells returns the cells of a triple, with the target of its query in bold, and the side of the
// target.
func targetCells(side string, head, relation, tail cell) []cell {
	for s, c := range map[kg.Side]*cell{kg.Head: &head, kg.Relation: &relation, kg.Tail: &tail} {
		c.Bold = side == s.String()
	}
	return []cell{head, relation, tail, {Text: side}}
}
