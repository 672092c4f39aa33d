package metrics

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/mquine/mquine/internal/text"
)

// groupOrder is what tables use to choose and order groups. ByMRR sorts by value.
type groupOrder struct {
	by, name string
	queries  int
	value    Number
}

// grouped is a result or a contrast of a group of queries.
type grouped interface{ order() groupOrder }

func (r Result) order() groupOrder   { return groupOrder{r.By, r.Group, r.N, r.MRR} }
func (c Contrast) order() groupOrder { return groupOrder{c.By, c.Group, c.N, c.Metrics[0].Difference} }

// byKey yields the groups of each key. The groups of a key follow each other.
func byKey[G grouped](groups []G) iter.Seq[[]G] {
	return func(yield func([]G) bool) {
		for len(groups) > 0 {
			n := 1
			for n < len(groups) && groups[n].order().by == groups[0].order().by {
				n++
			}
			if !yield(groups[:n]) {
				return
			}
			groups = groups[n:]
		}
	}
}

// appendGroups adds the rows of the groups that the options list, in order, to a table with the given
// number of columns. A row says how many groups only Top leaves out.
func appendGroups[G grouped](t *text.Table, columns int, groups []G, o TableOptions, row func(G) []any) {
	listed, split, hidden := chosen(groups, o)
	for _, g := range listed[:split] {
		t.AppendRow(row(g))
	}
	if hidden > 0 {
		more := make([]any, columns)
		for i := range more {
			more[i] = ""
		}
		more[0] = text.Whole(fmt.Sprintf("… %s more", text.Comma(hidden)))
		t.AppendRow(more)
	}
	for _, g := range listed[split:] {
		t.AppendRow(row(g))
	}
}

// chosen returns the groups to list, in order. hidden counts the groups that only Top leaves out. They
// belong between listed[:split] and listed[split:].
func chosen[G grouped](groups []G, o TableOptions) (listed []G, split, hidden int) {
	listed = slices.DeleteFunc(slices.Clone(groups), func(g G) bool { return g.order().queries < max(o.Least, 1) })
	compare := map[Order]func(a, b G) int{
		ByQueries: func(a, b G) int { return cmp.Compare(b.order().queries, a.order().queries) },
		ByMRR:     func(a, b G) int { return cmp.Compare(b.order().value, a.order().value) },
		ByName:    func(a, b G) int { return cmp.Compare(a.order().name, b.order().name) },
	}[o.Sort]
	if compare != nil {
		slices.SortStableFunc(listed, compare)
	}
	split = len(listed)
	if o.Top == 0 || o.Top >= len(listed) {
		return listed, split, 0
	}
	hidden, split = len(listed)-o.Top, o.Top
	if o.Sort == ByMRR {
		split = (o.Top + 1) / 2
	}
	return slices.Delete(listed, split, split+hidden), split, hidden
}
