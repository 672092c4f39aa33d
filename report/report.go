// Package report shows evaluations, comparisons and training runs on one HTML page that needs no
// network access, scripts or fonts. It supports light and dark mode, small screens and print.
//
// Read reads the files that mquine eval and mquine compare write, and the folders of training runs.
// A Page can also be filled with results in memory. Page.Write writes the page.
package report

import (
	_ "embed"
	"html/template"
	"io"
	"regexp"
	"strings"

	"github.com/mquine/mquine/internal/plot"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/train/run"
)

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	style string

	layout = template.Must(template.New("page").Funcs(template.FuncMap{
		"plot": plot.HTML, "breakable": breakable,
	}).Parse(pageText))
)

// Page is the content of a page. The page has a section for each item. Side by side, it compares
// evaluations of the same queries, and runs on the same data set that select epochs by the same
// metric.
type Page struct {
	Evaluations []Evaluation
	Comparisons []Comparison
	Runs        []Run
}

// Evaluation is the report of an evaluation, under the name that the page gives it.
type Evaluation struct {
	Name string
	*metrics.Report
}

// Comparison is the report of a comparison, under the name that the page gives it.
type Comparison struct {
	Name string
	*metrics.ComparisonReport
}

// Run is the history of a training run, under the name that the page gives it.
type Run struct {
	Name string
	run.History
}

// Write writes the page. The same content gives the same bytes. It is an error if an evaluation or a
// checkpoint of a comparison has no results or impossible ones, if a comparison has no checkpoints, or
// if a run has no epochs.
func (p *Page) Write(w io.Writer) error {
	if err := p.check(); err != nil {
		return err
	}
	out := text.NewWriter(w)
	if err := layout.Execute(out, p.view()); err != nil {
		return err
	}
	return out.Flush()
}

// breakable lets a browser break a name after underscores, slashes, dots and colons, so that names
// of relations and entities fit into narrow columns.
func breakable(name string) template.HTML {
	escaped := template.HTMLEscapeString(name)
	return template.HTML(breaks.ReplaceAllString(escaped, "$1<wbr>$2"))
}

var breaks = regexp.MustCompile(`([\pL\pN][_/.:]+)([\pL\pN])`)

// pageView is a page as the template shows it.
type pageView struct {
	Title         string // title of the window
	Content       string // the number of items of each kind
	Charts, Style template.CSS
	Sections      []section
}

func (p *Page) view() pageView {
	v := pageView{Title: "mquine report", Content: p.content(), Charts: plot.CSS(), Style: template.CSS(style)}
	v.Sections = append(v.Sections, p.boards()...)
	for i, e := range p.Evaluations {
		v.Sections = append(v.Sections, e.section(sectionID("evaluation", i)))
	}
	for i, c := range p.Comparisons {
		v.Sections = append(v.Sections, c.section(sectionID("comparison", i)))
	}
	for i, r := range p.Runs {
		v.Sections = append(v.Sections, r.section(sectionID("run", i)))
	}
	if len(v.Sections) == 1 {
		v.Title = v.Sections[0].Title + " – mquine"
	}
	return v
}

// content returns text such as "2 evaluations, 1 training run".
func (p *Page) content() string {
	var parts []string
	for _, kind := range []struct {
		n    int
		name string
	}{{len(p.Evaluations), "evaluation"}, {len(p.Comparisons), "comparison"}, {len(p.Runs), "training run"}} {
		if kind.n > 0 {
			parts = append(parts, text.Plural(kind.n, kind.name))
		}
	}
	return strings.Join(parts, ", ")
}
