package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mquine/mquine/internal/plot"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/metrics"
)

// section is a section of the page.
type section struct {
	ID, Title, Lead string
	Tiles           []tile
	Parts           []part
}

// tile is a headline figure.
type tile struct{ Name, Value, Note string }

// part is a part of a section. Fields that are empty are not shown.
type part struct {
	ID, Title, Text string
	Charts          []plot.Chart
	Tables          []table
	// Folded tables are behind a summary that opens them.
	Folded []folded
	Facts  []fact
}

type folded struct {
	Summary string
	Table   table
}

// fact is a name with a value. Code marks a value that a reader may want to copy.
type fact struct {
	Name, Value string
	Code        bool
}

// table is a table whose first column names the rows.
type table struct {
	Caption string
	Plain   bool // the caption repeats the title above
	Columns []column
	Rows    [][]cell
}

type column struct {
	Name string
	// Text is set for a column of text. Other columns contain numbers.
	Text bool
	// From and To label the ends of the strips in this column, if it has any.
	From, To string
}

type cell struct {
	Text string
	// Note follows Text in small print.
	Note  string
	Strip *strip
	// Bold marks the best value of a column. Link is the ID of a section.
	Bold bool
	Link string
}

func textColumns(names ...string) []column {
	var c []column
	for _, name := range names {
		c = append(c, column{Name: name, Text: true})
	}
	return c
}

func numberColumns(names ...string) []column {
	var c []column
	for _, name := range names {
		c = append(c, column{Name: name})
	}
	return c
}

func texts(values ...string) []cell {
	var c []cell
	for _, v := range values {
		c = append(c, cell{Text: v})
	}
	return c
}

// strip is a picture in a table cell. Positions are percentages of its width.
type strip struct {
	Bars []bar
	// Dot and Zero are positions, or empty.
	Dot, Zero string
	// Low and High are the ends of an interval, or empty.
	Low, High string
}

// bar is a part of a strip. Its class selects its colour.
type bar struct{ Class, X, Width string }

// scale is the range of the values in a column of strips.
type scale struct{ low, high float64 }

// shareScale returns a scale that begins at 0, for values between 0 and 1.
func shareScale(values ...float64) scale {
	largest := 0.0
	for _, v := range values {
		if v > largest { // false for NaN
			largest = v
		}
	}
	for _, high := range []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5} {
		if largest <= high {
			return scale{0, high}
		}
	}
	return scale{0, 1}
}

// signedScale returns a scale with 0 in its middle.
func signedScale(values ...float64) scale {
	largest := 0.0
	for _, v := range values {
		if v = math.Abs(v); v > largest && !math.IsInf(v, 0) {
			largest = v
		}
	}
	if largest == 0 {
		return scale{-1, 1}
	}
	power := math.Pow(10, math.Floor(math.Log10(largest)))
	for _, factor := range []float64{1, 2, 5} {
		if high := factor * power; largest <= high {
			return scale{-high, high}
		}
	}
	return scale{-10 * power, 10 * power}
}

// at returns the position of a value, in percent.
func (s scale) at(v float64) string {
	share := (v - s.low) / (s.high - s.low)
	return strconv.FormatFloat(100*min(max(share, 0), 1), 'f', 2, 64)
}

// column returns the heading of a column of strips.
func (s scale) column(name string) column {
	return column{Name: name, Text: true, From: tick(s.low), To: tick(s.high)}
}

func tick(v float64) string { return minus(strconv.FormatFloat(v, 'g', 3, 64)) }

// bar returns a strip with a bar from 0 to the value, or nil if the value is undefined.
func (s scale) bar(value metrics.Number, ci [2]metrics.Number) *strip {
	if !defined(value) {
		return nil
	}
	p := &strip{Bars: []bar{{"hue1", "0", s.at(float64(value))}}}
	s.interval(p, ci)
	return p
}

// difference returns a strip with a dot at the value and a line at 0.
func (s scale) difference(value metrics.Number, ci [2]metrics.Number) *strip {
	if !defined(value) {
		return nil
	}
	p := &strip{Dot: s.at(float64(value)), Zero: s.at(0)}
	s.interval(p, ci)
	return p
}

func (s scale) interval(p *strip, ci [2]metrics.Number) {
	if defined(ci[0]) && defined(ci[1]) {
		p.Low, p.High = s.at(float64(ci[0])), s.at(float64(ci[1]))
	}
}

// parts returns a strip of adjacent bars with the given sizes.
func parts(classes []string, sizes ...int) *strip {
	total := 0
	for _, n := range sizes {
		total += n
	}
	p, done := &strip{}, 0
	for i, n := range sizes {
		if n > 0 {
			whole := scale{0, float64(total)}
			p.Bars = append(p.Bars, bar{classes[i], whole.at(float64(done)), whole.at(float64(n))})
		}
		done += n
	}
	return p
}

var undefined = metrics.Number(math.NaN())

func defined(n metrics.Number) bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// number formats a number with the given number of decimals, or with as many as it needs if
// decimals is −1. An undefined number is a dash.
func number(n metrics.Number, decimals int) string {
	if !defined(n) {
		return "–"
	}
	s := strconv.FormatFloat(float64(n), 'f', decimals, 64)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-") // not −0
	}
	whole, rest, fraction := strings.Cut(s, ".")
	if v, err := strconv.ParseInt(whole, 10, 64); err == nil && math.Abs(float64(v)) >= 1000 {
		whole = text.Comma(v)
	}
	if fraction {
		whole += "." + rest
	}
	return minus(whole)
}

// rankNumber formats a rank or a median. Only estimates of ranks (rank.Sample.Scale) and medians between
// two ranks need more than halves.
func rankNumber(n metrics.Number) string {
	if twice := 2 * n; defined(n) && twice != metrics.Number(math.Trunc(float64(twice))) {
		return number(n, 2)
	}
	return number(n, -1)
}

// signed is like number, but also gives positive numbers a sign.
func signed(n metrics.Number, decimals int) string {
	s := number(n, decimals)
	if defined(n) && n > 0 && strings.Trim(s, "0.,") != "" {
		return "+" + s
	}
	return s
}

// minus replaces hyphens with minus signs.
func minus(s string) string { return strings.ReplaceAll(s, "-", "−") }

func percent(n metrics.Number) string { return number(100*n, 1) + "%" }

// interval formats an interval.
func interval(ci [2]metrics.Number, format func(metrics.Number, int) string, decimals int) string {
	if !defined(ci[0]) || !defined(ci[1]) {
		return "–"
	}
	return fmt.Sprintf("[%s, %s]", format(ci[0], decimals), format(ci[1], decimals))
}

// meanInterval formats the interval of a mean, or says why it has none.
func meanInterval(mean metrics.Number, ci [2]metrics.Number, c metrics.ClusterCount) string {
	return cmp.Or(whyNoInterval(mean, ci, c), interval(ci, number, 4))
}

// differenceInterval formats the interval of a difference, or says why it has none.
func differenceInterval(d metrics.MetricDifference, c metrics.ClusterCount, decimals int) string {
	return cmp.Or(whyNoInterval(d.Difference, d.CI, c), interval(d.CI, signed, decimals))
}

// whyNoInterval says why a value has no interval. It returns "" if the value or the reason is unknown.
func whyNoInterval(value metrics.Number, ci [2]metrics.Number, c metrics.ClusterCount) string {
	if defined(value) && !defined(ci[0]) && c.Effective > 0 {
		return "too few clusters: " + c.EffectiveText()
	}
	return ""
}

// pValue formats a p-value.
func pValue(p metrics.Number) string {
	if defined(p) && p < 0.0001 {
		return "< 0.0001"
	}
	return number(p, 4)
}

// markBest sets the cells of a column with the best value in bold, unless all values are equal.
// value returns the value of a row.
func markBest(rows [][]cell, at int, largest bool, value func(row int) metrics.Number) {
	best := undefined
	equal := true
	for i := range rows {
		v := value(i)
		if !defined(v) {
			continue
		}
		if defined(best) && v != best {
			equal = false
		}
		if !defined(best) || largest && v > best || !largest && v < best {
			best = v
		}
	}
	if equal {
		return
	}
	for i := range rows {
		rows[i][at].Bold = value(i) == best
	}
}

// hitsOf returns Hits@k, which is undefined if the list lacks it.
func hitsOf(hits metrics.Hits, k int) metrics.Number {
	for _, h := range hits {
		if h.K == k {
			return h.Share
		}
	}
	return undefined
}

// cutOffs returns the cut-offs of several lists, in increasing order.
func cutOffs(lists ...metrics.Hits) []int {
	var ks []int
	for _, hits := range lists {
		for _, h := range hits {
			ks = append(ks, h.K)
		}
	}
	slices.Sort(ks)
	return slices.Compact(ks)
}

func hitsNames(ks []int) []string {
	var names []string
	for _, k := range ks {
		names = append(names, fmt.Sprintf("Hits@%d", k))
	}
	return names
}

func sectionID(kind string, i int) string { return fmt.Sprintf("%s-%d", kind, i+1) }

// modelOf describes the model of a checkpoint: "complex (d = 128)".
func modelOf(c metrics.Checkpoint) string {
	if c.Model == "" {
		return "–"
	}
	return c.ModelText()
}

// capital returns a name with a capital first letter.
func capital(name string) string {
	r, size := utf8.DecodeRuneInString(name)
	return string(unicode.ToUpper(r)) + name[size:]
}
