package text

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Table lays out a plain text table without lines. Every cell is escaped before the columns get their widths.
type Table struct{ writer table.Writer }

// NewTable returns a table. Columns are text, aligned to the left, except for the numbered ones, from 1.
func NewTable(numbers ...int) *Table {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatDefault
	style.Options = table.OptionsNoBordersAndSeparators
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	columns := make([]table.ColumnConfig, len(numbers))
	for i, n := range numbers {
		columns[i] = table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight}
	}
	t.SetColumnConfigs(columns)
	return &Table{t}
}

// AppendHeader adds a line of column names.
func (t *Table) AppendHeader(cells []any) { t.writer.AppendHeader(escapeCells(cells)) }

// AppendRow adds a line.
func (t *Table) AppendRow(cells []any) { t.writer.AppendRow(escapeCells(cells)) }

// Render returns the table without a line feed at its end.
func (t *Table) Render() string { return t.writer.Render() }

// escapeCells leaves numbers alone, because the layout knows them by their types.
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
