package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mquine/mquine/internal/plot"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/metrics"
)

// board shows several evaluations of the same queries side by side.
type board struct {
	items []Evaluation
	links []string // the IDs of their sections
	lines []metrics.Result
}

// boards returns a section for each set of evaluations with the same triples, split, protocol,
// candidates and number of queries, followed by the sections of runBoards. A set has at least two
// evaluations.
func (p *Page) boards() []section {
	type queries struct {
		data, sha256, split string
		protocol            metrics.Protocol
		candidates          int
		restrictions        string
		leftOut             metrics.LeftOut
		n                   int
	}
	sets := map[queries]*board{}
	var order []*board
	for i, e := range p.Evaluations {
		h := e.headline()
		protocol := metrics.Protocol{Sides: h.Side, Filter: h.Filter, Ties: h.Ties}
		if e.Tolerance != nil {
			protocol.Tolerance = *e.Tolerance
		}
		data := e.Provenance.Data
		key := queries{
			data.Name, data.SHA256, e.Split, protocol, e.Candidates, e.restrictions(), data.LeftOut, h.N,
		}
		if sets[key] == nil {
			sets[key] = &board{}
			order = append(order, sets[key])
		}
		b := sets[key]
		b.items, b.links, b.lines = append(b.items, e), append(b.links, sectionID("evaluation", i)), append(b.lines, h)
	}
	var sections []section
	for _, b := range order {
		if len(b.items) > 1 {
			sections = append(sections, b.section(sectionID("board", len(sections))))
		}
	}
	return append(sections, p.runBoards()...)
}

func (b *board) section(id string) section {
	h, first := b.lines[0], b.items[0]
	intervals := fmt.Sprintf("Intervals are by %v, and describe each evaluation alone.", first.Provenance.Bootstrap.By)
	if b.mixed() {
		intervals = "Intervals describe each evaluation alone. They resample different clusters, which the last " +
			"column names, so do not compare their widths."
	}
	s := section{
		ID: id, Title: fmt.Sprintf("Side by side: %s, %s split", first.Provenance.Data.Name, first.Split),
		Lead: fmt.Sprintf("%s, %s. %s A difference between two checkpoints can be reliable even if their intervals "+
			"overlap, because they rank the same queries: compare them with mquine compare.", first.queries(h),
			protocolName(h.Side, h.Filter, h.Ties), intervals),
	}
	s.add(part{Title: "Metrics", Tables: []table{b.metrics()}})
	s.add(b.distributions())
	var keys []groupKey
	for i, e := range b.items {
		for _, set := range e.groupSets(b.lines[i]) {
			if !slices.Contains(keys, set.groupKey) {
				keys = append(keys, set.groupKey)
			}
		}
	}
	for _, key := range keys {
		s.add(b.groups(key))
	}
	return s
}

// mixed reports whether the intervals of some evaluations resample other clusters than the others.
func (b *board) mixed() bool {
	by := b.items[0].Provenance.Bootstrap.By
	return slices.ContainsFunc(b.items, func(e Evaluation) bool { return e.Provenance.Bootstrap.By != by })
}

// metrics returns the table of the headline metrics.
func (b *board) metrics() table {
	var (
		lists []metrics.Hits
		mrrs  []float64
	)
	for _, r := range b.lines {
		lists = append(lists, r.Hits)
		mrrs = append(mrrs, float64(r.MRR), float64(r.MRRCI[1]))
	}
	ks, scale := cutOffs(lists...), shareScale(mrrs...)
	t := table{
		Caption: "Metrics of the evaluations",
		Columns: slices.Concat(textColumns("Evaluation"), []column{scale.column("MRR")},
			numberColumns("MRR", "95% interval"), numberColumns(hitsNames(ks)...), numberColumns("MR", "AMRI"),
			textColumns("Model")),
	}
	mixed := b.mixed()
	if mixed {
		t.Columns = append(t.Columns, textColumns("Intervals by")...)
	}
	for i, r := range b.lines {
		e := b.items[i]
		row := []cell{{Text: e.Name, Link: b.links[i]}, {Strip: scale.bar(r.MRR, r.MRRCI)}}
		row = append(row, texts(number(r.MRR, 4), meanInterval(r.MRR, r.MRRCI, r.ClusterCount))...)
		for _, k := range ks {
			row = append(row, texts(number(hitsOf(r.Hits, k), 4))...)
		}
		row = append(row, texts(number(r.MR, 2), number(r.AMRI, 4), modelOf(e.Provenance.Checkpoint))...)
		if mixed {
			row = append(row, cell{Text: e.Provenance.Bootstrap.By.String()})
		}
		t.Rows = append(t.Rows, row)
	}
	markBest(t.Rows, 2, true, func(i int) metrics.Number { return b.lines[i].MRR })
	for j, k := range ks {
		markBest(t.Rows, 4+j, true, func(i int) metrics.Number { return hitsOf(b.lines[i].Hits, k) })
	}
	markBest(t.Rows, 4+len(ks), false, func(i int) metrics.Number { return b.lines[i].MR })
	markBest(t.Rows, 5+len(ks), true, func(i int) metrics.Number { return b.lines[i].AMRI })
	return t
}

// distributions draws the rank distributions of all evaluations together.
func (b *board) distributions() part {
	var curves []curve
	for i, r := range b.lines {
		if len(r.RankCounts) > 0 {
			curves = append(curves, curve{b.items[i].Name, b.items[i].RankBounds, r.RankCounts})
		}
	}
	if len(curves) < 2 {
		return part{}
	}
	candidates := b.items[0].candidates(b.lines[0].Side) // equal in all evaluations
	return part{
		Title:  "Rank distributions",
		Text:   distributionText(candidates),
		Charts: []plot.Chart{distributionChart("Share of queries by rank", candidates, curves)},
	}
}

// groups returns the MRR of each group of a key in the evaluations that have the key.
func (b *board) groups(key groupKey) part {
	t := table{Columns: append(textColumns(capital(key.by)), numberColumns("Queries")...)}
	var (
		byName []map[string]metrics.Result // for each evaluation that has the key
		first  []group
	)
	for i, e := range b.items {
		for _, set := range e.groupSets(b.lines[i]) {
			if set.groupKey != key {
				continue
			}
			if first == nil {
				first = set.groups
			}
			results := map[string]metrics.Result{}
			for _, g := range set.groups {
				results[g.name] = g.main
			}
			byName, t.Columns = append(byName, results), append(t.Columns, column{Name: e.Name})
		}
	}
	if len(byName) < 2 {
		return part{}
	}
	t.Caption = fmt.Sprintf("MRR by %s", key.by)
	if len(first) > fewGroups {
		first = slices.Clone(first)
		slices.SortStableFunc(first, func(a, b group) int { return cmp.Compare(b.main.N, a.main.N) })
		first = first[:fewGroups]
		t.Caption += fmt.Sprintf(", the %d groups with the most queries", fewGroups)
	}
	for _, g := range first {
		row := []cell{{Text: g.name, Note: g.main.Label}, {Text: text.Comma(g.main.N)}}
		for _, results := range byName {
			c := cell{Text: "–"}
			if r, ok := results[g.name]; ok {
				c.Text = number(r.MRR, 4)
				if defined(r.MRRCI[0]) {
					c.Note = interval(r.MRRCI, number, 3)
				}
			}
			row = append(row, c)
		}
		t.Rows = append(t.Rows, row)
	}
	for i, row := range t.Rows {
		column := make([][]cell, len(byName))
		for j := range column {
			column[j] = row[2+j:]
		}
		markBest(column, 0, true, func(j int) metrics.Number {
			if r, ok := byName[j][first[i].name]; ok {
				return r.MRR
			}
			return undefined
		})
	}
	return part{Title: key.title(), Text: key.text(), Tables: []table{t}}
}
