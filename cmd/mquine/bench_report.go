package main

import (
	"bytes"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/bench/report"
)

func newBenchReportCommand() *cobra.Command {
	results, out := filepath.Join("bench", "results"), "bench.html"
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Draw the results as a web page",
		Long: `Draw the results as one web page: a roofline of the kernels, tables of the kernels by tier and of
whole jobs with their shares of the limits, rivals where there are results of them, and the trend of
every benchmark by commit.

The page needs nothing else: no network, no scripts, no fonts. It follows the reader's choice of
light or dark and fits a phone. Every class of machine has a part of its own, since their results do
not compare.`,
		Example: `  mquine bench report
  mquine bench report --results bench/results --out report.html`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var page bytes.Buffer
			if err := report.Write(cmd.Context(), &page, results); err != nil {
				return err
			}
			return writeFile(cmd, out, page.Bytes())
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&results, "results", results, "`folder` of the results, a folder in it for each class of machine")
	markInput(cmd, "results")
	addOutput(cmd, &out, "out", "`file` for the page, or \"-\" for standard output")
	return cmd
}
