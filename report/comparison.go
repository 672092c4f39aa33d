package report

import (
	"fmt"
	"slices"

	"github.com/mquine/mquine/internal/plot"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/metrics"
)

// section returns the section of a comparison.
func (c Comparison) section(id string) section {
	s := section{
		ID: id, Title: fmt.Sprintf("%s: %s on %s, %v split", c.Name, text.Plural(len(c.Checkpoints), "checkpoint"),
			c.Provenance.Data.Name, c.Split),
		Lead: fmt.Sprintf("Filter %v, %v ties. Differences are relative to %s, the base. They have 95%% bootstrap "+
			"intervals and p-values of a two-sided permutation test, by %v, without a correction for multiple testing.",
			c.Filter, c.Ties, c.Checkpoints[0].Name, c.Provenance.Bootstrap.By),
	}
	if c.Restricted() {
		s.Lead += " The candidates are restricted."
	}
	if left := c.Provenance.Data.LeftOut.Of(c.Split.String()); left != "" {
		s.Lead += " Left out: " + left + "."
	}
	if c.LeftOut > 0 {
		s.Lead += fmt.Sprintf(" Left out: %s.", text.Plural(c.LeftOut, "query"))
	}
	if n := c.UnequalCandidates(); n != "" {
		s.Lead += fmt.Sprintf(" The checkpoints have %s candidates, so their ranks are not strictly comparable.", n)
	}
	if t := c.Checkpoints[0].Tolerance; t.Absolute+t.Relative > 0 {
		s.Lead += fmt.Sprintf(" Scores within %v + %v·|score| of the target's count as equal.", t.Absolute, t.Relative)
	}
	s.add(c.checkpoints())
	s.add(c.distributions())
	for _, pair := range c.Comparisons {
		s.add(pairPart(pair))
	}
	s.add(c.origin())
	return s
}

// checkpoints returns the metrics of all checkpoints, for the last side.
func (c Comparison) checkpoints() part {
	var (
		lines []metrics.Result
		lists []metrics.Hits
		mrrs  []float64
	)
	for _, of := range c.Checkpoints {
		r := of.Results[len(of.Results)-1]
		lines, lists = append(lines, r), append(lists, r.Hits)
		mrrs = append(mrrs, float64(r.MRR), float64(r.MRRCI[1]))
	}
	ks, scale := cutOffs(lists...), shareScale(mrrs...)
	side := lines[0].Side
	t := table{
		Caption: fmt.Sprintf("Metrics of the checkpoints, %s", protocolName(side, c.Filter, c.Ties)),
		Columns: slices.Concat(textColumns("Checkpoint"), []column{scale.column("MRR")},
			numberColumns("MRR", "95% interval"), numberColumns(hitsNames(ks)...), numberColumns("MR"),
			textColumns("Model")),
	}
	for i, r := range lines {
		of := c.Checkpoints[i]
		row := []cell{{Text: of.Name}, {Strip: scale.bar(r.MRR, r.MRRCI)}}
		row = append(row, texts(number(r.MRR, 4), meanInterval(r.MRR, r.MRRCI, r.ClusterCount))...)
		for _, k := range ks {
			row = append(row, texts(number(hitsOf(r.Hits, k), 4))...)
		}
		t.Rows = append(t.Rows, append(row, texts(number(r.MR, 2), modelOf(of.Checkpoint))...))
	}
	markBest(t.Rows, 2, true, func(i int) metrics.Number { return lines[i].MRR })
	for j, k := range ks {
		markBest(t.Rows, 4+j, true, func(i int) metrics.Number { return hitsOf(lines[i].Hits, k) })
	}
	markBest(t.Rows, 4+len(ks), false, func(i int) metrics.Number { return lines[i].MR })
	return part{Title: "Checkpoints", Text: "Here, intervals describe each checkpoint alone.", Tables: []table{t}}
}

// distributions draws the rank distributions of all checkpoints together, for the last side.
func (c Comparison) distributions() part {
	var curves []curve
	for _, of := range c.Checkpoints {
		if r := of.Results[len(of.Results)-1]; len(r.RankCounts) > 0 {
			curves = append(curves, curve{of.Name, c.RankBounds, r.RankCounts})
		}
	}
	if len(curves) == 0 {
		return part{}
	}
	return part{
		Title:  "Rank distributions",
		Text:   "Each line shows the share of queries whose true answer has this rank or a better one.",
		Charts: []plot.Chart{distributionChart("Share of queries by rank", 0, curves)},
		Folded: []folded{{"Shares by rank", shares(curves)}},
	}
}

// pairPart returns the differences of a checkpoint from the base, and its wins and losses.
func pairPart(pair metrics.NamedComparison) part {
	p := part{Title: pair.Other + " against " + pair.Base}
	var shares []float64
	for _, c := range pair.Whole {
		for _, d := range c.Metrics {
			if !isMeanRank(d) {
				shares = append(shares, float64(d.Difference), float64(d.CI[0]), float64(d.CI[1]))
			}
		}
	}
	ends := signedScale(shares...)
	t := table{
		Caption: "Differences by metric and side",
		Columns: slices.Concat(textColumns("Metric", "Side"), []column{ends.column("Difference")},
			numberColumns("Base", "Other", "Difference", "95% interval", "p")),
	}
	wins := table{
		Caption: "Queries that rank better, the same or worse",
		Columns: slices.Concat(textColumns("Side"), []column{scale{0, 1}.column("Share of queries")},
			numberColumns("Wins", "Equal", "Losses")),
	}
	for _, meanRank := range []bool{false, true} { // the mean rank has a different scale, so it comes last
		for m := range pair.Whole[0].Metrics {
			for _, c := range pair.Whole {
				if m < len(c.Metrics) && isMeanRank(c.Metrics[m]) == meanRank {
					t.Rows = append(t.Rows, differenceRow(c, c.Metrics[m], ends))
				}
			}
		}
	}
	for _, c := range pair.Whole {
		strip := parts([]string{"win", "equal", "loss"}, c.Wins, c.Equal, c.Losses)
		wins.Rows = append(wins.Rows, []cell{{Text: c.Side.String()}, {Strip: strip}, {Text: text.Comma(c.Wins)},
			{Text: text.Comma(c.Equal)}, {Text: text.Comma(c.Losses)}})
	}
	p.Text, p.Tables = verdict(pair), []table{t, wins}
	for _, by := range keysOf(pair.Groups) {
		p.addGroups(pair, by)
	}
	if len(pair.Changed) > 0 {
		p.Tables = append(p.Tables, changedTable(pair))
	}
	return p
}

func isMeanRank(d metrics.MetricDifference) bool { return d.Metric == "mr" }

func differenceRow(c metrics.Contrast, d metrics.MetricDifference, scale scale) []cell {
	decimals, strip := 4, scale.difference(d.Difference, d.CI)
	if isMeanRank(d) {
		decimals, strip = 2, nil
	}
	row := append(texts(metrics.MetricName(d.Metric), c.Side.String()), cell{Strip: strip})
	return append(row, texts(number(d.Base, decimals), number(d.Other, decimals), signed(d.Difference, decimals),
		differenceInterval(d, c.ClusterCount, decimals), pValue(d.P))...)
}

// verdict says in a sentence whether the MRR differs.
func verdict(pair metrics.NamedComparison) string {
	c := pair.Whole[len(pair.Whole)-1]
	for _, d := range c.Metrics {
		if d.Metric != "mrr" || !defined(d.Difference) {
			continue
		}
		size := max(d.Difference, -d.Difference)
		s := fmt.Sprintf("On side %v, the MRR of %s is %s than the base's by %s", c.Side, pair.Other,
			map[bool]string{true: "higher", false: "lower"}[d.Difference > 0], number(size, 4))
		switch {
		case size == 0:
			s = fmt.Sprintf("On side %v, the MRR of %s equals the base's", c.Side, pair.Other)
		case number(size, 4) == number(0, 4):
			s = fmt.Sprintf("On side %v, the MRR of %s equals the base's to four decimals", c.Side, pair.Other)
		}
		switch {
		case !defined(d.CI[0]):
			s += ". There are too few clusters for an interval"
		case d.CI[0] <= 0 && d.CI[1] >= 0:
			s += fmt.Sprintf(". The interval %s contains 0: the queries do not show which is better",
				interval(d.CI, signed, 4))
		default:
			s += fmt.Sprintf(", with the interval %s", interval(d.CI, signed, 4))
		}
		return s + "."
	}
	return ""
}

// keysOf returns the keys of groups in the order of their first group.
func keysOf(groups []metrics.Contrast) []string {
	var keys []string
	for _, c := range groups {
		if !slices.Contains(keys, c.By) {
			keys = append(keys, c.By)
		}
	}
	return keys
}

// addGroups adds the differences of the MRR by group, on the last side.
func (p *part) addGroups(pair metrics.NamedComparison, by string) {
	side := pair.Whole[len(pair.Whole)-1].Side
	var (
		groups []metrics.Contrast
		lines  []metrics.MetricDifference
		values []float64
	)
	for _, c := range pair.Groups {
		if c.By != by || c.Side != side || c.N == 0 {
			continue
		}
		for _, d := range c.Metrics {
			if d.Metric == "mrr" {
				groups, lines = append(groups, c), append(lines, d)
				values = append(values, float64(d.Difference), float64(d.CI[0]), float64(d.CI[1]))
				break
			}
		}
	}
	if len(groups) == 0 {
		return
	}
	scale := signedScale(values...)
	t := table{
		Caption: fmt.Sprintf("Difference of the MRR by %s, side %v", by, side),
		Columns: slices.Concat(textColumns(capital(by)), []column{scale.column("Difference")},
			numberColumns("Queries", "Base", "Other", "Difference", "95% interval", "p", "Wins", "Losses")),
	}
	for i, c := range groups {
		d := lines[i]
		row := []cell{{Text: c.Group, Note: c.Label}, {Strip: scale.difference(d.Difference, d.CI)}}
		t.Rows = append(t.Rows, append(row, texts(text.Comma(c.N), number(d.Base, 4), number(d.Other, 4),
			signed(d.Difference, 4), differenceInterval(d, c.ClusterCount, 4), pValue(d.P), text.Comma(c.Wins),
			text.Comma(c.Losses))...))
	}
	if len(t.Rows) > fewGroups {
		all := t
		all.Rows = all.Rows[:min(len(all.Rows), mostGroups)]
		p.Folded = append(p.Folded, folded{fmt.Sprintf("%d of %s groups by %s", len(all.Rows),
			text.Comma(len(groups)), by), all})
		t.Rows = t.Rows[:fewGroups]
		t.Caption += fmt.Sprintf(", the first %d groups", fewGroups)
	}
	p.Tables = append(p.Tables, t)
}

// changedTable lists the queries whose 1/rank changed most.
func changedTable(pair metrics.NamedComparison) table {
	t := table{
		Caption: "Queries whose 1/rank changed most, with the target in bold",
		Columns: append(numberColumns("Base rank", "Other rank"), targetColumns()...),
	}
	for _, q := range pair.Changed {
		row := texts(rankNumber(metrics.Number(q.BaseRank)), rankNumber(metrics.Number(q.OtherRank)))
		t.Rows = append(t.Rows, append(row, targetCells(q.Side, cell{Text: q.Head, Note: q.HeadLabel},
			cell{Text: q.Relation, Note: q.RelationLabel}, cell{Text: q.Tail, Note: q.TailLabel})...))
	}
	return t
}
