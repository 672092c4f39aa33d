package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/bench/report"
)

func newBenchReportCommand() *cobra.Command {
	results, out := filepath.Join("bench", "results"), "bench.html"
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Write an HTML report of benchmark results",
		Long: `Write an HTML report of benchmark results. It begins with comparisons with
rivals, if there are any. Then come a roofline of the kernels, tables of whole
jobs and of kernels by tier with their shares of the ceilings, and the trend of
every benchmark over the commits.

The page is one file without scripts, fonts or network access. It supports light
and dark mode and small screens. Each class of machine has its own section,
because results of different machines are not comparable. Results with different
processor features (MQUINE_CPU) also have a section each.`,
		Example: `  mquine bench report
  mquine bench report --results bench/results --out report.html`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var page bytes.Buffer
			err := report.Write(cmd.Context(), &page, results)
			if errors.Is(err, report.ErrNoResults) {
				return fmt.Errorf("%w: run %s", err, shellCommand("mquine", "bench", "run", "--results", results))
			}
			if err != nil {
				return err
			}
			return writeFile(cmd, out, page.Bytes())
		},
	}
	cmd.Flags().StringVar(&results, "results", results,
		"read results from `DIR`, with a subfolder for each class of machine")
	markInput(cmd, "results")
	addOutput(cmd, &out, "out", htmlFormat, "write the page to `FILE` (- is standard output)")
	return cmd
}
