package metrics

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/rank"
)

// Write writes the report in a format. Text and Markdown have a line for each result. LaTeX has one
// line, for the headline: the last filter, selection of sides and tie rule. All three show groups
// under the filter and the tie rule of the headline.
func (r *Report) Write(w io.Writer, f Format, o TableOptions) error {
	switch f {
	case JSON:
		return r.WriteJSON(w)
	case CSV:
		return r.writeCSV(w)
	}
	if err := o.check(); err != nil {
		return err
	}
	if len(r.Results) == 0 {
		return nil
	}
	var tables []*text.Table
	if f == LaTeX {
		tables = append(tables, r.paperTable(o))
	} else {
		tables = append(tables, r.resultTable(o))
	}
	for groups := range byKey(r.Groups) {
		tables = append(tables, r.groupTable(groups, f, o))
	}
	var notes []string
	if o.Explain {
		notes = r.explanation(o)
	}
	return writeTables(w, f, tables, notes)
}

// resultTable returns a table with a line for each result.
func (r *Report) resultTable(o TableOptions) *text.Table {
	// If relations are ranked, no result is of another side, and the title names the candidates.
	manyTies, relations := r.manyTies(), r.headline().Side == rank.RelationSide
	header := []any{"filter"}
	if !relations {
		header = append(header, "side")
	}
	if manyTies {
		header = append(header, "ties")
	}
	textColumns := len(header)
	header = append(header, "queries", o.intervalHeading("MRR"), "MR")
	if o.Wide {
		header = append(header, wideHeader...)
	}
	limits := o.Wide && slices.ContainsFunc(r.Results, func(res Result) bool { return res.Limits != nil })
	if limits {
		header = append(header, "MRR limit", "exchangeable")
	}
	t := newTable(r.title(o), textColumns, append(header, hitsHeader(r.Results[0].Hits)...))
	for _, res := range r.Results {
		row := []any{res.Filter.String()}
		if !relations {
			row = append(row, res.Side.String())
		}
		if manyTies {
			row = append(row, text.Whole(res.Ties.String()))
		}
		row = append(row, count(res.N), o.interval("mrr", res.MRR, res.MRRCI, res.ClusterCount), o.mean(res.MR))
		if o.Wide {
			row = append(row, o.wideCells(res)...)
		}
		if limits {
			row = append(row, o.limitCells(res)...)
		}
		t.AppendRow(append(row, o.hitsCells(res.Hits)...))
	}
	return t
}

// wideHeader names the columns that Wide adds after MR.
var wideHeader = []any{"median", "GMR", "AMR", "AMRI"}

// wideCells formats the values of these columns.
func (o TableOptions) wideCells(res Result) []any {
	return []any{o.mean(res.Median), o.mean(res.GMR), res.AMR.Format(4), res.AMRI.Format(4)}
}

// limitCells formats the limits of MRR. Under filter all, no other true answers compete, so the
// cells are empty.
func (o TableOptions) limitCells(res Result) []any {
	if res.Limits == nil || res.Filter == rank.All {
		return []any{"", ""}
	}
	return []any{o.share(res.Limits[Oracle]), o.share(res.Limits[Exchangeable])}
}

// paperTable returns a table with one line: the model's metrics under the headline's protocol.
func (r *Report) paperTable(o TableOptions) *text.Table {
	res := r.headline()
	header := []any{"model", o.intervalHeading("MRR")}
	row := []any{
		r.Provenance.Checkpoint.ModelText(),
		o.interval("mrr", res.MRR, res.MRRCI, res.ClusterCount),
	}
	if o.Wide {
		header = append(append(header, "MR"), wideHeader...)
		row = append(append(row, o.mean(res.MR)), o.wideCells(res)...)
	}
	t := newTable(r.caption(o), 1, append(header, hitsHeader(res.Hits)...))
	t.AppendRow(append(row, o.hitsCells(res.Hits)...))
	return t
}

// groupTable returns a table with a line for each group of a key, under the headline's filter and
// tie rule.
func (r *Report) groupTable(groups []Result, f Format, o TableOptions) *text.Table {
	_, sides := r.switches()
	res, by := r.headline(), groups[0].By
	var of []Result
	parts := map[string][]Number{} // MRRs of a group on the selections of sides before the headline's
	for _, g := range groups {
		switch {
		case sameProtocol(g, res.Side, res.Filter, res.Ties):
			of = append(of, g)
		case g.Filter == res.Filter && g.Ties == res.Ties:
			parts[g.Group] = append(parts[g.Group], g.MRR)
		}
	}
	title := "By " + by
	if f != LaTeX {
		title += fmt.Sprintf(": filter %v, side %v, %v ties%s", res.Filter, res.Side, res.Ties, o.unit())
	}
	if by == zCaseName {
		title += ", convention " + r.ZConvention
	}
	title += notListed(o)
	if f == LaTeX { // a paper shows each table by itself
		title = fmt.Sprintf("%s: %s. %s", title, r.Provenance.Checkpoint.ModelText(), r.caption(o))
	}
	header := []any{by, "queries", o.intervalHeading("MRR")}
	if o.Wide {
		for _, s := range sides[:len(sides)-1] {
			header = append(header, s.String()+" MRR")
		}
		header = append(append(header, "MR"), wideHeader...)
	}
	header = append(header, hitsHeader(res.Hits)...)
	t := newTable(title, 1, header)
	appendGroups(t, len(header), of, o, func(g Result) []any {
		row := []any{text.WithLabel(g.Group, g.Label), count(g.N), o.interval("mrr", g.MRR, g.MRRCI, g.ClusterCount)}
		if o.Wide {
			for _, part := range parts[g.Group] {
				row = append(row, o.share(part))
			}
			row = append(append(row, o.mean(g.MR)), o.wideCells(g)...)
		}
		return append(row, o.hitsCells(g.Hits)...)
	})
	return t
}

// notListed returns the part of the title of a table that says which small groups are left out.
func notListed(o TableOptions) string {
	if o.Least > 1 {
		return fmt.Sprintf(", groups of at least %s", text.Plural(o.Least, "query"))
	}
	return ""
}

// manyTies reports whether the results are under several tie rules.
func (r *Report) manyTies() bool {
	return slices.ContainsFunc(r.Results, func(res Result) bool { return res.Ties != r.Results[0].Ties })
}

// headline returns the last result: usually both sides under filter all.
func (r *Report) headline() Result { return r.Results[len(r.Results)-1] }

// title describes the evaluation in one line.
func (r *Report) title(o TableOptions) string {
	p := r.Provenance
	title := fmt.Sprintf("%s: %s, %s", p.Data.SplitText(r.Split), p.Checkpoint.ModelText(), r.candidates())
	if !r.manyTies() {
		title += fmt.Sprintf(", %v ties", r.headline().Ties)
	}
	title += o.unit()
	if !o.NoCI {
		title += fmt.Sprintf(", CI by %v", p.Bootstrap.By)
	}
	return title
}

// caption describes the evaluation in the caption of a table for a paper.
func (r *Report) caption(o TableOptions) string {
	res := r.headline()
	caption := paperCaption(r.Provenance, r.Split, res.Filter, res.Side, res.Ties, o)
	if r.Restrictions != nil {
		caption += " " + r.Restrictions.Sentence(res.Side, r.Candidates)
	}
	if slices.ContainsFunc(Protocols, func(p Protocol) bool { return p.Name == r.Protocol }) {
		caption += fmt.Sprintf(" Protocol: %s.", r.Protocol)
	}
	if r.Tolerance != nil {
		caption += fmt.Sprintf(" Scores within %s of the answer's count as equal.", formatTolerance(*r.Tolerance))
	}
	if slices.ContainsFunc(r.Deviations, func(d Deviation) bool { return d.Cause == otherScores }) {
		caption += " The tool ranks by other scores."
	}
	if r.Estimate != nil && !r.Estimate.Exact {
		caption += " Estimates: MRR and Hits@k are biased."
	}
	return caption
}

// paperCaption describes a protocol in the caption of a table for a paper.
func paperCaption(
	p Provenance, split string, f rank.Filter, s rank.Sides, t rank.Ties, o TableOptions,
) string {
	filter := map[rank.Filter]string{
		rank.None:  "unfiltered ranks",
		rank.Train: "ranks filtered by the training triples",
		rank.All:   "filtered ranks",
	}[f]
	task, sides := "Link prediction", "tail and head queries"
	switch s {
	case rank.TailSide, rank.HeadSide:
		sides = s.String() + " queries"
	case rank.RelationSide:
		task, sides = "Relation prediction", "relation queries"
	}
	data := p.Data.Name
	if left := p.Data.LeftOut.Of(split); left != "" {
		data += ", without " + left
	}
	caption := fmt.Sprintf("%s on the %s split of %s: %s, %s, %v ties%s.",
		task, split, data, filter, sides, t, o.unit())
	if !o.NoCI {
		caption += fmt.Sprintf(" In brackets: 95%% bootstrap intervals, %s resamples by %v.",
			text.Comma(p.Bootstrap.Resamples), p.Bootstrap.By)
	}
	return caption
}

// explanation returns lines that explain the numbers in the tables.
func (r *Report) explanation(o TableOptions) []string {
	filters, sides := r.switches()
	equal := "exactly its score"
	if r.Tolerance != nil {
		equal = "an equal score"
	}
	rankOf := map[rank.Ties]string{
		rank.Optimistic:  "\n(candidates with " + equal + " come after it)",
		rank.Pessimistic: "\n+ the candidates with " + equal,
		rank.Realistic:   "\n+ half of the candidates with " + equal,
		rank.Rounded:     "\n+ half of the candidates with " + equal + ", rounded up",
	}
	kind := "entity"
	if slices.Contains(sides, rank.RelationSide) {
		kind = "relation"
	}
	meaning := map[rank.Filter]string{
		rank.None:  "every " + kind + " is a candidate",
		rank.Train: "other answers known from train are not candidates",
		rank.All:   "other answers known from train, valid and test are not candidates",
	}
	subject := "Rank"
	if r.manyTies() {
		subject = fmt.Sprintf("Rank, %v ties", r.headline().Ties)
	}
	subject += ": 1 + the candidates that score better than the target"
	lines := []string{subject + rankOf[r.headline().Ties] + "."}
	if c := r.Restrictions; c != nil && c.Sample != nil && !c.Sample.Exact {
		lines = append(lines, "These counts of candidates are estimates from the drawn ones.")
	}
	if r.Tolerance != nil {
		lines = append(lines, fmt.Sprintf("Scores within %s of the target's count as equal.",
			formatTolerance(*r.Tolerance)))
	}
	if r.Restrictions != nil {
		meaning[rank.None] = "known answers stay candidates"
	}
	for _, f := range filters {
		lines = append(lines, fmt.Sprintf("Filter %v: %s.", f, meaning[f]))
	}
	if slices.Contains(sides, rank.BothSides) {
		lines = append(lines, "Side both: the mean over all tail and head queries.")
	}
	if o.NoCI {
		return lines
	}
	few := slices.ContainsFunc(slices.Concat(r.Results, r.Groups),
		func(res Result) bool { return tooFew(res.MRR, res.MRRCI) })
	return append(lines, resampling(r.Provenance.Bootstrap, r.Split, r.headline().Clusters, few)...)
}

// resampling returns lines that explain the intervals. few reports whether some intervals are
// missing because there are too few clusters.
func resampling(b Bootstrap, split string, clusters int, few bool) []string {
	line := fmt.Sprintf("CI: 95%% percentile bootstrap, %s resamples of the %s triples", text.Comma(b.Resamples), split)
	if b.By != ByTriple {
		line += fmt.Sprintf("\nin %s by %v", text.Plural(clusters, "cluster"), b.By)
	}
	lines := []string{line + "."}
	if few {
		lines = append(lines, fmt.Sprintf("[too few: n]: no interval, because the effective number n of clusters\n"+
			"is below %d.", leastClusters))
	}
	return lines
}

// switches returns the filters and the selections of sides of the results, in the order of the
// results.
func (r *Report) switches() (filters []rank.Filter, sides []rank.Sides) {
	for _, res := range r.Results {
		if !slices.Contains(filters, res.Filter) {
			filters = append(filters, res.Filter)
		}
		if !slices.Contains(sides, res.Side) {
			sides = append(sides, res.Side)
		}
	}
	return filters, sides
}

// writeCSV writes a line for each result and for each group.
func (r *Report) writeCSV(w io.Writer) error {
	header := []string{
		"data", "split", "checkpoint", "model", "dim", "by", "group", "label", "side", "filter", "ties", "n",
		"mrr", "mrr_ci_low", "mrr_ci_high", "ci_by", "clusters", "effective_clusters",
		"mr", "median", "gmr", "amr", "amri", limitKey(Oracle), limitKey(Exchangeable), "candidates", "protocol",
	}
	if len(r.Results) > 0 {
		for _, h := range r.Results[0].Hits {
			header = append(header, hitsKey+strconv.Itoa(h.K))
		}
	}
	var rows [][]string
	p := r.Provenance
	dim := strconv.Itoa(p.Checkpoint.Dim)
	if p.Checkpoint.Members != nil {
		dim = ""
	}
	for _, res := range slices.Concat(r.Results, r.Groups) {
		row := []string{
			p.Data.Name, r.Split, p.Checkpoint.PathText(), p.Checkpoint.Model, dim, res.By, res.Group, res.Label,
			res.Side.String(), res.Filter.String(), res.Ties.String(), strconv.Itoa(res.N),
			res.MRR.Exact(), res.MRRCI[0].Exact(), res.MRRCI[1].Exact(), p.Bootstrap.By.String(),
			strconv.Itoa(res.Clusters), res.Effective.Exact(),
			res.MR.Exact(), res.Median.Exact(), res.GMR.Exact(), res.AMR.Exact(), res.AMRI.Exact(),
		}
		if res.Limits == nil {
			row = append(row, "", "")
		} else {
			row = append(row, res.Limits[Oracle].Exact(), res.Limits[Exchangeable].Exact())
		}
		candidates := r.Restrictions.Describe(res.Side, r.Candidates)
		if res.By != "" { // how many queries of a group are left out is unknown
			candidates = r.Restrictions.among(res.Side, r.Candidates)
		} else if left := p.Data.LeftOut.Of(r.Split); left != "" {
			candidates += ", without " + left
		}
		row = append(row, candidates, r.Protocol)
		for _, h := range res.Hits {
			row = append(row, h.Share.Exact())
		}
		rows = append(rows, row)
	}
	return text.WriteRecords(w, CSV, header, slices.Values(rows))
}

// AddLabels adds readable labels of opaque identifiers to groups and queries.
func (r *Report) AddLabels(labels map[string]string) {
	for i := range r.Groups {
		if g := &r.Groups[i]; g.By == relationName || g.By == entityName {
			g.Label = labels[g.Group]
		}
	}
	for _, list := range [][]RankedQuery{r.Worst, r.Best} {
		for i := range list {
			q := &list[i]
			q.HeadLabel, q.RelationLabel, q.TailLabel = labels[q.Head], labels[q.Relation], labels[q.Tail]
		}
	}
}
