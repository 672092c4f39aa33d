package text

import "github.com/jedib0t/go-pretty/v6/text"

// Cut returns s shortened to at most the given number of columns, with an ellipsis at the end if
// anything is missing. Wide characters take two columns.
func Cut(s string, columns int) string {
	if text.StringWidth(s) <= columns {
		return s
	}
	width := 1 // width of the ellipsis
	for i, r := range s {
		width += text.RuneWidth(r)
		if width > columns {
			return s[:i] + "…"
		}
	}
	return s
}
