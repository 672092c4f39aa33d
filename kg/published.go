package kg

import (
	"fmt"

	"github.com/mquine/mquine/internal/text"
)

// published gives the number of triples in each split of the public data sets. Package catalogue,
// which imports this package, describes these data sets in full.
var published = map[string][NumSplits]int{
	"fb15k":        {483_142, 50_000, 59_071},
	"fb15k-237":    {272_115, 17_535, 20_466},
	"wn18":         {141_442, 5_000, 5_000},
	"wn18rr":       {86_835, 3_034, 3_134},
	"yago3-10":     {1_079_040, 5_000, 5_000},
	"codex-l":      {551_193, 30_622, 30_622},
	"codex-m":      {185_584, 10_310, 10_311},
	"codex-s":      {32_888, 1_827, 1_828},
	"umls":         {5_216, 652, 661},
	"kinship":      {8_544, 1_068, 1_074},
	"nations":      {1_592, 199, 201},
	"countries-s1": {1_111, 24, 24},
	"countries-s2": {1_063, 24, 24},
	"countries-s3": {985, 24, 24},
}

// comparePublished compares g with the public data set of the same name, if there is one. If the
// number of triples in a split of g differs, it returns a sentence that names the file. Otherwise
// it returns "".
func (g *Graph) comparePublished(paths [NumSplits]string) (difference string) {
	want, public := published[g.Name]
	if !public {
		return ""
	}
	for s := range NumSplits {
		if got := len(g.Splits[s]); g.Has(s) && got != want[s] {
			return fmt.Sprintf("%s has %s, but the %v split of the public data set %s has %s",
				paths[s], text.Count(got, "triple", "triples"), s, g.Name, text.Comma(want[s]))
		}
	}
	return ""
}
