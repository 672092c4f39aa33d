package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// writeTable prints the verdicts.
func writeTable(w io.Writer, all lists) {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"List", "Mutation", "Package", "Verdict", "Caught by, or reason"})
	t.SetColumnConfigs([]table.ColumnConfig{
		{Number: 2, WidthMax: 60, WidthMaxEnforcer: text.WrapSoft},
		{Number: 5, WidthMax: 60, WidthMaxEnforcer: text.WrapSoft},
	})
	for _, l := range all {
		for _, m := range l.Mutations {
			t.AppendRow(table.Row{l.name, m.Name, m.Package, m.verdict, m.detail})
		}
	}
	t.Render()
}

// markdown returns the page for the documentation.
func markdown(all lists) []byte {
	var b strings.Builder
	total, bad := all.count()
	b.WriteString("# Mutations\n\n")
	b.WriteString("This page shows which mistakes the tests catch. Each row is a small wrong change to the code\n" +
		"and the first test that fails because of it. `make mutants` makes each change by itself, runs the\n" +
		"tests that should notice it, and writes this page. The lists of changes are\n" +
		"`internal/mutants/*.yaml`. An equivalent change cannot affect a result, for the reason given.\n\n")
	fmt.Fprintf(&b, "Of %d mutations, %d are neither caught nor equivalent.\n", total, bad)
	cell := strings.NewReplacer("|", `\|`, "\n", " ")
	for _, l := range all {
		fmt.Fprintf(&b, "\n## %s\n\n", l.Title)
		if about := strings.TrimSpace(l.About); about != "" {
			fmt.Fprintf(&b, "%s\n\n", about)
		}
		b.WriteString("| mutation | file | verdict | caught by, or reason |\n|---|---|---|---|\n")
		for _, m := range l.Mutations {
			detail := cell.Replace(strings.TrimSpace(m.detail))
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", cell.Replace(m.Name), m.File, m.verdict, detail)
		}
	}
	return []byte(b.String())
}
