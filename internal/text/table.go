package text

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Table is a table of text and numbers. Each method that writes it escapes the cells for its
// format.
type Table struct {
	numbers []int
	header  []any
	rows    [][]any
}

// NewTable returns an empty table. The listed columns, counted from 1, hold numbers and are
// right-aligned. All others hold text and are left-aligned.
func NewTable(numbers ...int) *Table { return &Table{numbers: numbers} }

// AppendHeader sets the column names. Markdown does not escape them.
func (t *Table) AppendHeader(cells []any) { t.header = cells }

// AppendRow adds a row.
func (t *Table) AppendRow(cells []any) { t.rows = append(t.rows, cells) }

// Render returns the table as plain text without rules and without a final newline.
func (t *Table) Render() string {
	w := table.NewWriter()
	style := table.StyleDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatDefault
	style.Options = table.OptionsNoBordersAndSeparators
	w.SetStyle(style)
	w.SuppressTrailingSpaces()
	columns := make([]table.ColumnConfig, len(t.numbers))
	for i, n := range t.numbers {
		columns[i] = table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight}
	}
	w.SetColumnConfigs(columns)
	if t.header != nil {
		w.AppendHeader(escapeCells(t.header))
	}
	for _, row := range t.rows {
		w.AppendRow(escapeCells(row))
	}
	return w.Render()
}

// escapeCells escapes all cells except numbers, which the table writer recognises by their types.
func escapeCells(cells []any) table.Row {
	row := make(table.Row, len(cells))
	for i, cell := range cells {
		switch cell.(type) {
		case int, int64, uint64, float64:
			row[i] = cell
		default:
			row[i] = Escape(fmt.Sprint(cell))
		}
	}
	return row
}

// Markdown returns the table in GitHub's Markdown. It does not escape the header and the numeric
// columns, because the program itself writes them and their brackets are not links.
func (t *Table) Markdown() string {
	var b strings.Builder
	for _, name := range t.header {
		fmt.Fprintf(&b, "| %v ", name)
	}
	b.WriteString("|\n|")
	for i := range t.header {
		b.WriteString(map[bool]string{false: " --- |", true: " ---:|"}[t.isNumber(i)])
	}
	b.WriteString("\n")
	for _, row := range t.rows {
		for i, cell := range row {
			if !t.isNumber(i) {
				cell = Markdown(fmt.Sprint(cell))
			}
			fmt.Fprintf(&b, "| %v ", cell)
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// LaTeX returns the table as a tabular environment with the rules of the package booktabs.
func (t *Table) LaTeX() string {
	var b strings.Builder
	b.WriteString("\\begin{tabular}{")
	for i := range t.header {
		b.WriteString(map[bool]string{false: "l", true: "r"}[t.isNumber(i)])
	}
	b.WriteString("}\n\\toprule\n")
	line := func(cells []any) {
		escaped := make([]string, len(cells))
		for i, cell := range cells {
			escaped[i] = latexEscaper.Replace(Escape(fmt.Sprint(cell)))
		}
		fmt.Fprintf(&b, "%s \\\\\n", strings.Join(escaped, " & "))
	}
	line(t.header)
	b.WriteString("\\midrule\n")
	for _, row := range t.rows {
		line(row)
	}
	b.WriteString("\\bottomrule\n\\end{tabular}\n")
	return b.String()
}

// latexEscaper also protects brackets: LaTeX would read a bracket at the start of a row as the
// beginning of an argument of the preceding \\.
var latexEscaper = strings.NewReplacer(`\`, `\textbackslash{}`, `&`, `\&`, `%`, `\%`, `$`, `\$`, `#`, `\#`, `_`, `\_`,
	`{`, `\{`, `}`, `\}`, `~`, `\textasciitilde{}`, `^`, `\textasciicircum{}`, `[`, `{[}`, `]`, `{]}`)

// isNumber reports whether column i, counted from 0, holds numbers.
func (t *Table) isNumber(i int) bool { return slices.Contains(t.numbers, i+1) }
