package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/metrics"
)

// groupKey is a key of groups. For Z-cases, it has the convention of Z-patterns, because groups with the
// same name contain different queries under different conventions.
type groupKey struct{ by, convention string }

// groupSet holds the groups of a key under the headline protocol.
type groupSet struct {
	groupKey
	groups []group
}

// group is a group with its results on the headline's side and on the other sides.
type group struct {
	name string
	main metrics.Result
	rest []metrics.Result
}

// groupSets returns the groups with queries, by key, in the order of the report.
func (e Evaluation) groupSets(h metrics.Result) []groupSet {
	var sets []groupSet
	for _, r := range e.Groups {
		if r.Ties != h.Ties || r.Filter != h.Filter {
			continue
		}
		if len(sets) == 0 || sets[len(sets)-1].by != r.By {
			key := groupKey{by: r.By}
			if r.By == "z-case" {
				key.convention = e.ZConvention
			}
			sets = append(sets, groupSet{groupKey: key})
		}
		set := &sets[len(sets)-1]
		if n := len(set.groups); n == 0 || set.groups[n-1].name != r.Group {
			set.groups = append(set.groups, group{name: r.Group})
		}
		g := &set.groups[len(set.groups)-1]
		if r.Side == h.Side {
			g.main = r
		} else {
			g.rest = append(g.rest, r)
		}
	}
	for i := range sets {
		sets[i].groups = slices.DeleteFunc(sets[i].groups, func(g group) bool { return g.main.N == 0 })
	}
	return slices.DeleteFunc(sets, func(s groupSet) bool { return len(s.groups) == 0 })
}

// groupTitles and groupTexts describe the keys of groups.
var (
	groupTitles = map[string]string{
		"category": "category of relation", "degree": "degree of the target", "z-case": "Z-case",
	}
	groupTexts = map[string]string{
		"category": "Categories are the cardinalities of relations, heads first. N means more than 1.5 on average " +
			"over the training queries.",
		"degree": "The degree is the number of distinct training triples with the target as head or tail.",
	}
)

func (k groupKey) title() string { return "By " + cmp.Or(groupTitles[k.by], k.by) }

func (k groupKey) text() string {
	if k.convention != "" {
		return fmt.Sprintf("Z-cases follow the convention %q of Z-patterns.", k.convention)
	}
	return groupTexts[k.by]
}

const (
	// fewGroups is the largest number of groups that a table shows without folding. Among the
	// groups with at least leastQueries queries, the extremeGroups groups with the lowest MRR and
	// as many with the highest are above a folded table. If there are fewer than 2·extremeGroups
	// such groups, the first fewGroups groups of the report take their place.
	fewGroups     = 20
	extremeGroups = 10
	leastQueries  = 20
	// mostGroups is the largest number of groups in a folded table. It bounds the size of the page.
	mostGroups = 300
)

// part returns the part of the page with the groups.
func (s groupSet) part() part {
	p := part{Title: s.title(), Text: s.text()}
	if len(s.groups) <= fewGroups {
		p.Tables = []table{s.table(p.Title, s.groups)}
		return p
	}
	var large []group
	for _, g := range s.groups {
		if g.main.N >= leastQueries && defined(g.main.MRR) {
			large = append(large, g)
		}
	}
	slices.SortStableFunc(large, func(a, b group) int { return cmp.Compare(a.main.MRR, b.main.MRR) })
	of := fmt.Sprintf("of %s with at least %d queries", text.Comma(len(large)), leastQueries)
	if len(large) >= 2*extremeGroups {
		highest := slices.Clone(large[len(large)-extremeGroups:])
		slices.Reverse(highest)
		p.Tables = []table{
			s.table("Lowest MRR, "+of, large[:extremeGroups]),
			s.table("Highest MRR, "+of, highest),
		}
	} else {
		p.Tables = []table{s.table(fmt.Sprintf("The %d groups with the most queries", fewGroups), s.groups[:fewGroups])}
	}
	summary := fmt.Sprintf("All %s groups", text.Comma(len(s.groups)))
	if len(s.groups) > mostGroups {
		summary = fmt.Sprintf("The first %d of %s groups", mostGroups, text.Comma(len(s.groups)))
	}
	p.Folded = []folded{{summary, s.table(summary, s.groups[:min(len(s.groups), mostGroups)])}}
	return p
}

// table returns the table of some groups.
func (s groupSet) table(caption string, groups []group) table {
	scale := s.scale()
	ks := cutOffs(groups[0].main.Hits)
	t := table{
		Caption: caption,
		Columns: slices.Concat(textColumns(capital(s.by)), []column{scale.column("MRR")},
			numberColumns("Queries", "MRR", "95% interval")),
	}
	for _, r := range groups[0].rest {
		t.Columns = append(t.Columns, column{Name: r.Side.String() + " MRR"})
	}
	t.Columns = append(t.Columns, numberColumns(hitsNames(ks)...)...)
	for _, g := range groups {
		row := []cell{{Text: g.name, Note: g.main.Label}, {Strip: scale.bar(g.main.MRR, g.main.MRRCI)}}
		row = append(row, texts(text.Comma(g.main.N), number(g.main.MRR, 4),
			meanInterval(g.main.MRR, g.main.MRRCI, g.main.ClusterCount))...)
		for i := range groups[0].rest {
			c := cell{Text: "–"}
			if i < len(g.rest) {
				c.Text = number(g.rest[i].MRR, 4)
			}
			row = append(row, c)
		}
		for _, k := range ks {
			row = append(row, texts(number(hitsOf(g.main.Hits, k), 4))...)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// scale returns the scale of all strips of the set.
func (s groupSet) scale() scale {
	var mrrs []float64
	for _, g := range s.groups {
		mrrs = append(mrrs, float64(g.main.MRR), float64(g.main.MRRCI[1]))
	}
	return shareScale(mrrs...)
}
