package zpattern

import (
	"iter"

	"github.com/mquine/mquine/kg"
)

// Patterns yields the Z-patterns of t that the convention counts, in ascending order of e₂ and then
// e₃.
func (x *Index) Patterns(t kg.Triple, c Convention) iter.Seq[Pattern] {
	return func(yield func(Pattern) bool) {
		r := &x.relations[t.Relation]
		tails, heads := &r[kg.Tail], &r[kg.Head]
		head, ok := tails.find(t.Head)
		tail, ok2 := heads.find(t.Tail)
		if !ok || !ok2 {
			return
		}
		ends := heads.row(tail)
		for _, e2 := range tails.row(head) {
			middle := heads.row(e2)
			// Merge the two ascending lists.
			for i, j := 0, 0; i < len(middle) && j < len(ends); {
				switch {
				case middle[i] < ends[j]:
					i++
				case middle[i] > ends[j]:
					j++
				default:
					p := Pattern{E2: heads.ids[e2], E3: tails.ids[middle[i]]}
					if (c == Paper || p.E2 != p.E3) && !yield(p) {
						return
					}
					i++
					j++
				}
			}
		}
	}
}
