package compare

import (
	"fmt"

	"github.com/mquine/mquine/internal/text"
)

// Note says what a comparison leaves out or ignores of one or more benchmarks.
type Note struct {
	Benchmarks []string
	// one and several are formats of the sentence for one benchmark and for several.
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
	switch {
	case len(n.Benchmarks) == 1:
		return fmt.Sprintf(n.one, n.Benchmarks[0])
	case !n.Counts():
		return fmt.Sprintf(n.several, text.Join(n.Benchmarks, "and"))
	case n.other:
		return fmt.Sprintf(n.several, fmt.Sprintf("%d other benchmarks", len(n.Benchmarks)))
	}
	return fmt.Sprintf(n.several, fmt.Sprintf("%d benchmarks", len(n.Benchmarks)))
}

// noteList collects notes. It joins notes about different benchmarks that say the same.
type noteList []Note

// add adds a note about a benchmark. The format one has the form "%s has …", and several "%s have …".
func (list *noteList) add(benchmark string, other bool, one, several string) {
	for i := range *list {
		if n := &(*list)[i]; n.one == one && n.several == several {
			n.Benchmarks = append(n.Benchmarks, benchmark)
			return
		}
	}
	*list = append(*list, Note{[]string{benchmark}, one, several, other})
}
