package text

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Table is a table of text and numbers with a title. Each method that writes a table escapes the
// cells of text for its format.
type Table struct {
	// Title is a line above the table, or empty.
	Title string
	// Caption is the caption in LaTeX, after the title if there is one.
	Caption string
	numbers []int
	header  []any
	rows    [][]any
}

// Best is a cell that stands out, such as the best value of its column.
type Best string

// Whole is a cell that no terminal shortens, such as a word of the program among labels of the data.
type Whole string

// NewTable returns an empty table. The listed columns, counted from 1, hold numbers and are
// right-aligned. All others hold text and are left-aligned.
func NewTable(numbers ...int) *Table { return &Table{numbers: numbers} }

// AppendHeader sets the column names. The method Markdown does not escape them.
func (t *Table) AppendHeader(cells []any) { t.header = cells }

// AppendRow adds a row.
func (t *Table) AppendRow(cells []any) { t.rows = append(t.rows, cells) }

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Write writes the title and the table as text, Markdown or LaTeX, followed by a line feed. It
// shortens long text only on a terminal that is too narrow for the table.
func (t *Table) Write(w io.Writer, f Format) error {
	var out string
	switch f {
	case FormatLaTeX:
		out = t.LaTeX()
	case FormatMarkdown:
		out = t.Markdown()
		if t.Title != "" {
			out = Markdown(t.Title) + "\n\n" + out
		}
	default:
		out = t.render(Width(w), func(s string) string { return Bold.Of(w, s) }) + "\n"
		if t.Title != "" {
			out = Wrap(Escape(t.Title)) + "\n\n" + out
		}
	}
	_, err := io.WriteString(w, out)
	return err
}

// lineWidth is the width of lines of text above and below tables, and of pairs.
const lineWidth = 80

// Wrap breaks a line between words, after at most 80 columns.
func Wrap(line string) string { return WrapAfter("", line) }

// WrapAfter is like Wrap, but begins each of the lines with a prefix.
func WrapAfter(prefix, line string) string {
	var b strings.Builder
	b.WriteString(prefix)
	used := len(prefix)
	for i, word := range strings.Split(line, " ") {
		width := text.StringWidthWithoutEscSequences(word)
		switch {
		case i == 0:
		case used+1+width > lineWidth:
			b.WriteString("\n" + prefix)
			used = len(prefix)
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += width
	}
	return b.String()
}

// Width returns the number of columns that the table takes as plain text, without its title.
func (t *Table) Width() int { return text.LongestLineLen(t.Render()) }

// Render returns the table as plain text without rules and without a final newline.
func (t *Table) Render() string { return t.render(0, func(s string) string { return s }) }

// gap is the number of spaces between two columns of plain text.
const gap = 2

// render is Render for a terminal of the given width, or for any width if it is 0. It passes cells
// of type Best through best.
func (t *Table) render(width int, best func(string) string) string {
	w := table.NewWriter()
	style := table.StyleDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", strings.Repeat(" ", gap)
	style.Format.Header = text.FormatDefault
	style.Options = table.OptionsNoBordersAndSeparators
	w.SetStyle(style)
	w.SuppressTrailingSpaces()
	columns := make([]table.ColumnConfig, len(t.numbers))
	for i, n := range t.numbers {
		columns[i] = table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight}
	}
	w.SetColumnConfigs(columns)
	limits := t.limits(width)
	row := func(cells []any) table.Row {
		shown := make(table.Row, len(cells))
		for i, cell := range cells {
			line := cellText(cell)
			if i < len(limits) {
				line = shorten(line, limits[i])
			}
			if _, ok := cell.(Best); ok {
				line = best(line)
			}
			shown[i] = line
		}
		return shown
	}
	if t.header != nil {
		w.AppendHeader(row(t.header))
	}
	for _, cells := range t.rows {
		w.AppendRow(row(cells))
	}
	return w.Render()
}

// cellText returns the text of a cell, escaped for a line.
func cellText(cell any) string { return Escape(fmt.Sprint(cell)) }

// limits returns the maximum width of each column with which the table fits into the given width.
// Only labels in columns of text become shorter, the widest column first. limits returns nil if the
// table fits anyway, or if it cannot fit.
func (t *Table) limits(width int) []int {
	if width == 0 {
		return nil
	}
	const shortest = 8
	var limits, least []int // the widths of the columns, and what their labels leave of them
	for r, row := range append([][]any{t.header}, t.rows...) {
		for i, cell := range row {
			if i == len(limits) {
				limits, least = append(limits, 0), append(least, shortest)
			}
			n := text.StringWidthWithoutEscSequences(cellText(cell))
			limits[i] = max(limits[i], n)
			if _, whole := cell.(Whole); whole || r == 0 || t.isNumber(i) {
				least[i] = max(least[i], n)
			}
		}
	}
	total := gap * (len(limits) - 1)
	for _, n := range limits {
		total += n
	}
	if total <= width {
		return nil
	}
	for ; total > width; total-- {
		widest := -1
		for i, n := range limits {
			if n > least[i] && (widest < 0 || n > limits[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return nil
		}
		limits[widest]--
	}
	return limits
}

// shorten replaces the middle of a line with … if the line is wider than the given number of
// columns. The end of a label often says more than its beginning, so shorten keeps more of the end.
func shorten(line string, most int) string {
	if text.StringWidthWithoutEscSequences(line) <= most {
		return line
	}
	runes := []rune(line)
	start, end, used := 0, len(runes), 1
	for start < end {
		next, front := runes[end-1], start < (len(runes)-end)/2
		if front {
			next = runes[start]
		}
		if used += text.RuneWidth(next); used > most {
			break
		}
		if front {
			start++
		} else {
			end--
		}
	}
	return string(runes[:start]) + "…" + string(runes[end:])
}

// minus matches the sign of a negative number, but not of an exponent.
var minus = regexp.MustCompile(`(^|[ \[])-([0-9.])`)

// Markdown returns the table in GitHub's Markdown. It does not escape the header and the numeric
// columns, because the program itself writes them and their brackets are not links.
func (t *Table) Markdown() string {
	var b strings.Builder
	header := t.header
	if header == nil { // GitHub requires a header
		header = make([]any, t.columns())
		for i := range header {
			header[i] = ""
		}
	}
	for _, name := range header {
		fmt.Fprintf(&b, "| %v ", name)
	}
	b.WriteString("|\n|")
	for i := range header {
		b.WriteString(map[bool]string{false: " --- |", true: " ---:|"}[t.isNumber(i)])
	}
	b.WriteString("\n")
	for _, row := range t.rows {
		for i, cell := range row {
			shown := fmt.Sprint(cell)
			if t.isNumber(i) {
				shown = minus.ReplaceAllString(shown, "$1−$2")
			} else {
				shown = Markdown(shown)
			}
			if _, ok := cell.(Best); ok {
				shown = "**" + shown + "**"
			}
			fmt.Fprintf(&b, "| %s ", shown)
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// LaTeX returns the table as a table environment with its title and Caption as the caption. It needs the
// package booktabs.
func (t *Table) LaTeX() string {
	var b strings.Builder
	b.WriteString("\\begin{table}\n\\centering\n")
	caption := cmp.Or(t.Title, t.Caption)
	if t.Title != "" && t.Caption != "" {
		caption = t.Title + ". " + t.Caption
	}
	if caption != "" {
		fmt.Fprintf(&b, "\\caption{%s}\n", latex(caption))
	}
	b.WriteString("\\begin{tabular}{")
	for i := range t.columns() {
		b.WriteString(map[bool]string{false: "l", true: "r"}[t.isNumber(i)])
	}
	b.WriteString("}\n\\toprule\n")
	line := func(cells []any) {
		shown := make([]string, len(cells))
		for i, cell := range cells {
			shown[i] = latex(fmt.Sprint(cell))
			if t.isNumber(i) {
				shown[i] = minus.ReplaceAllString(shown[i], "$1$$-$$$2")
			}
			if _, ok := cell.(Best); ok {
				shown[i] = "\\textbf{" + shown[i] + "}"
			}
		}
		row := strings.Join(shown, " & ")
		// After \\, LaTeX would read a bracket as the beginning of an argument, and a star as part
		// of the command.
		if strings.HasPrefix(row, "[") || strings.HasPrefix(row, "*") {
			row = "{}" + row
		}
		fmt.Fprintf(&b, "%s \\\\\n", row)
	}
	if t.header != nil {
		line(t.header)
		b.WriteString("\\midrule\n")
	}
	for _, row := range t.rows {
		line(row)
	}
	b.WriteString("\\bottomrule\n\\end{tabular}\n\\end{table}\n")
	return b.String()
}

// latex escapes text for LaTeX. It separates characters that fonts join to others, such as two hyphens.
func latex(s string) string {
	s = Escape(s)
	for _, c := range []string{"-", "'", ","} {
		for strings.Contains(s, c+c) {
			s = strings.ReplaceAll(s, c+c, c+"\x00"+c) // Escape leaves no NUL
		}
	}
	return latexEscaper.Replace(s)
}

// latexEscaper sets a double quote in a typewriter font, because the usual fonts have none, and packages
// for languages give it another meaning.
var latexEscaper = strings.NewReplacer("\x00", `{}`, "`", `\textasciigrave{}`, `"`, `\texttt{\symbol{34}}`,
	`\`, `\textbackslash{}`, `&`, `\&`, `%`, `\%`, `$`, `\$`, `#`, `\#`, `_`, `\_`,
	`{`, `\{`, `}`, `\}`, `~`, `\textasciitilde{}`, `^`, `\textasciicircum{}`, `<`, `$<$`, `>`, `$>$`, `|`, `$|$`,
	`…`, `\ldots{}`, `−`, `$-$`, `–`, `--`, `→`, `$\to$`, `←`, `$\leftarrow$`, `×`, `$\times$`)

// columns returns the number of columns.
func (t *Table) columns() int {
	if t.header == nil && len(t.rows) > 0 {
		return len(t.rows[0])
	}
	return len(t.header)
}

// isNumber reports whether column i, counted from 0, holds numbers.
func (t *Table) isNumber(i int) bool { return slices.Contains(t.numbers, i+1) }
