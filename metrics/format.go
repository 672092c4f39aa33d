package metrics

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/rank"
)

// Format is an output format of Report.Write and ComparisonReport.Write: one of the constants below. Its
// method String returns the word for it on the command line.
type Format = text.Format

const (
	// PlainText is aligned text for a terminal.
	PlainText = text.FormatTable
	// Markdown is GitHub's Markdown.
	Markdown = text.FormatMarkdown
	// LaTeX has tables for a paper, with a row for each model. It needs the package booktabs.
	LaTeX = text.FormatLaTeX
	// CSV has a line for each set of numbers, with exact labels.
	CSV = text.FormatCSV
	// JSON has everything.
	JSON = text.FormatJSON
)

// Order is an order of groups in tables.
type Order uint8

const (
	// UsualOrder is the key's own order or, if the key has none, the largest groups first.
	UsualOrder Order = iota
	// ByQueries puts the largest groups first.
	ByQueries
	// ByMRR puts the groups with the highest MRR first. In comparisons, it puts the groups with the
	// largest gain in MRR first.
	ByMRR
	// ByName sorts the groups by name.
	ByName
)

// String returns "usual", "queries", "mrr" or "name".
func (o Order) String() string {
	return text.Name([]string{"usual", "queries", "mrr", "name"}, o, "Order")
}

// TableOptions selects what tables show. It affects neither CSV nor JSON.
type TableOptions struct {
	// Wide adds the rarer metrics.
	Wide bool
	// Explain adds an explanation of the numbers below the tables.
	Explain bool
	// Percent shows MRR, Hits@k and their differences times 100.
	Percent bool
	// NoCI leaves out intervals.
	NoCI bool
	// Sort is the order of groups. Least is the least number of queries of a listed group, and Top,
	// at least 0, is the greatest number of listed groups; 0 means all. If Sort is ByMRR, half of the
	// listed groups are from the end of the order.
	Sort       Order
	Least, Top int
}

// check returns an error if tables cannot follow the options.
func (o TableOptions) check() error {
	if o.Top < 0 {
		return fmt.Errorf("a table cannot list %d groups: choose at least 0, where 0 means all", o.Top)
	}
	return nil
}

// DefaultTop is the default value of TableOptions.Top.
const DefaultTop = 20

// share formats an MRR, a Hits@k or a difference between two of them.
func (o TableOptions) share(n Number) string {
	if o.Percent {
		return (100 * n).Format(2)
	}
	return n.Format(4)
}

// unit returns the part of a title that says that shares are in percent.
func (o TableOptions) unit() string {
	if o.Percent {
		return ", in percent"
	}
	return ""
}

// mean formats a mean rank, a median or a difference between mean ranks with about four digits.
func (o TableOptions) mean(n Number) string {
	switch size := math.Abs(float64(n)); {
	case size < 99.995:
		return n.Format(2)
	case size < 999.95:
		return n.Format(1)
	}
	return n.Format(0)
}

// count formats a number of queries. Commas would make millions too wide for a narrow terminal.
func count(n int) string {
	if n >= 1_000_000 {
		return strconv.Itoa(n)
	}
	return text.Comma(n)
}

// metric formats the value of the metric with the given key, or a difference between two values.
func (o TableOptions) metric(key string, n Number) string {
	if key == "mr" {
		return o.mean(n)
	}
	return o.share(n)
}

// interval formats a value with its interval, or with the reason why it has none.
func (o TableOptions) interval(key string, n Number, ci [2]Number, c ClusterCount) string {
	value := o.metric(key, n)
	switch {
	case o.NoCI || math.IsNaN(float64(n)):
		return value
	case tooFew(n, ci):
		return fmt.Sprintf("%s [too few: %s]", value, c.EffectiveText())
	}
	return fmt.Sprintf("%s [%s, %s]", value, o.metric(key, ci[0]), o.metric(key, ci[1]))
}

// intervalHeading returns the name of a column of intervals.
func (o TableOptions) intervalHeading(name string) string {
	if o.NoCI {
		return name
	}
	return name + " [95% CI]"
}

// MetricName returns the name of the metric with the given key in tables: MRR for mrr, Hits@10 for hits@10.
func MetricName(key string) string {
	if k, ok := strings.CutPrefix(key, hitsKey); ok {
		return "Hits@" + k
	}
	return strings.ToUpper(key)
}

// smallestP is the smallest p-value of the permutation test that tables show as a number.
const smallestP = 0.0001

func formatP(p Number) string {
	if p < smallestP {
		return "< 0.0001"
	}
	return p.Format(4)
}

// Format formats the number for tables, with the given number of decimals, or with as many as the
// number needs if decimals is −1. An undefined number is a dash, and a number that rounds to 0 has no
// sign.
func (n Number) Format(decimals int) string {
	if math.IsNaN(float64(n)) {
		return "–"
	}
	s := strconv.FormatFloat(float64(n), 'f', decimals, 64)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-")
	}
	return s
}

// Exact formats the number for programs, with as many digits as it needs. An undefined number is empty.
func (n Number) Exact() string {
	if math.IsNaN(float64(n)) {
		return ""
	}
	return strconv.FormatFloat(float64(n), 'g', -1, 64)
}

// tooFew reports whether a mean has no interval because there are too few clusters.
func tooFew(n Number, ci [2]Number) bool {
	return !math.IsNaN(float64(n)) && math.IsNaN(float64(ci[0]))
}

func hitsHeader(hits Hits) []any {
	var cells []any
	for _, h := range hits {
		cells = append(cells, fmt.Sprintf("Hits@%d", h.K))
	}
	return cells
}

func (o TableOptions) hitsCells(hits Hits) []any {
	var cells []any
	for _, h := range hits {
		cells = append(cells, o.share(h.Share))
	}
	return cells
}

// newTable returns a table with text in the first columns and numbers in the others.
func newTable(title string, textColumns int, header []any) *text.Table {
	var numbers []int
	for i := textColumns; i < len(header); i++ {
		numbers = append(numbers, i+1)
	}
	t := text.NewTable(numbers...)
	t.Title = title
	t.AppendHeader(header)
	return t
}

// writeTables writes tables with blank lines between them and, except in LaTeX, notes below.
func writeTables(w io.Writer, f Format, tables []*text.Table, notes []string) error {
	for i, t := range tables {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := t.Write(w, f); err != nil {
			return err
		}
	}
	if len(notes) == 0 || f == LaTeX {
		return nil
	}
	_, err := io.WriteString(w, "\n"+strings.Join(notes, "\n")+"\n")
	return err
}

// sameProtocol reports whether a result is for the given side, filter and tie rule.
func sameProtocol(r Result, s rank.Sides, f rank.Filter, t rank.Ties) bool {
	return r.Side == s && r.Filter == f && r.Ties == t
}
