package text

import (
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// Pairs returns names and values as lines of two columns, escaped and without a final newline. The
// lines break between words, after at most 80 columns. A value begins below its name if it then fits
// one line, or if one of its words, such as a checksum, is too wide for its column.
func Pairs(pairs [][2]string) string {
	const widest = 40 // leaves room for values
	width := text.StringWidthWithoutEscSequences
	names := 0
	for _, pair := range pairs {
		names = max(names, width(Escape(pair[0])))
	}
	indent := min(names, widest) + gap
	tooWide := func(s string) bool { return indent+width(s) > lineWidth }
	lines := make([]string, len(pairs))
	for i, pair := range pairs {
		name, value := Escape(pair[0]), Escape(pair[1])
		if width(name)+gap > indent || tooWide(value) && gap+width(value) <= lineWidth ||
			slices.ContainsFunc(strings.Split(value, " "), tooWide) {
			lines[i] = name + "\n" + WrapAfter(strings.Repeat(" ", gap), value)
			continue
		}
		wrapped := WrapAfter(strings.Repeat(" ", indent), value)
		lines[i] = text.Pad(name, indent, ' ') + wrapped[indent:]
	}
	return strings.Join(lines, "\n")
}
