package compare

import (
	"fmt"

	"github.com/mquine/mquine/internal/text"
)

// Note says what a comparison leaves out or ignores of one or more benchmarks.
type Note struct {
	Benchmarks []string
	// one and several continue the sentence after the name of one benchmark, or after several names.
	one, several string
	// other says that the table does not contain the benchmarks.
	other bool
}

// few is the largest number of benchmarks that the sentence of a note names.
const few = 3

// Counts reports whether the sentence counts the benchmarks instead of naming them.
func (n Note) Counts() bool { return len(n.Benchmarks) > few }

// String returns a sentence.
func (n Note) String() string {
	switch count := len(n.Benchmarks); {
	case count == 1:
		return n.Benchmarks[0] + n.one
	case !n.Counts():
		return text.Join(n.Benchmarks, "and") + n.several
	case n.other:
		return fmt.Sprintf("%d other benchmarks", count) + n.several
	default:
		return fmt.Sprintf("%d benchmarks", count) + n.several
	}
}

// noteList collects notes. It joins notes about different benchmarks that say the same.
type noteList []Note

// add adds a note about a benchmark. one and several continue the sentence after one name, or after several.
func (list *noteList) add(benchmark string, other bool, one, several string) {
	for i := range *list {
		if n := &(*list)[i]; n.one == one && n.several == several {
			n.Benchmarks = append(n.Benchmarks, benchmark)
			return
		}
	}
	*list = append(*list, Note{[]string{benchmark}, one, several, other})
}
