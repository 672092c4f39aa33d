package main

import (
	"bytes"
	"errors"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/report"
)

func newReportCommand() *cobra.Command {
	out := "report.html"
	cmd := &cobra.Command{
		Use:   "report FILE|RUN...",
		Short: "Write an HTML page of evaluations, comparisons and training runs",
		Long: `Write an HTML page of evaluations, comparisons and training runs. The arguments
are files from "mquine eval --json" and "mquine compare --json", and folders of
training runs, finished or not.

For an evaluation, the page has the metrics of every filter and side with their
intervals, the distribution of ranks, the groups of --by, and the best and the
worst queries. For a comparison, it has the differences with their intervals,
and the queries that changed most. For a run, it has the training curves and the
options. Evaluations of the same queries, and runs on the same data set, are
also shown side by side. Each section ends with its provenance, as far as the
file records it: version, date, command, machine and checksums.

The page is one file without scripts, fonts or network access. It supports light
and dark mode, small screens and print.`,
		Example: `  mquine eval ./run/best --data umls --by relation,category --json eval.json
  mquine report eval.json ./run --out report.html
  mquine report a.json b.json compare.json --out models.html`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("give a file from eval --json or compare --json, or the folder of a training run")
			}
			return nil
		},
		Annotations: map[string]string{fileArgs: ""},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			content, err := report.Read(cmd.Context(), args)
			if err != nil {
				return err
			}
			var page bytes.Buffer
			if err := content.Write(&page); err != nil {
				return err
			}
			if err := writeFile(cmd, out, page.Bytes()); err != nil {
				return err
			}
			if out != "-" {
				printLine(cmd.ErrOrStderr(), "wrote %s", out)
			}
			return nil
		},
	}
	addOutput(cmd, &out, "out", htmlFormat, "write the page to `FILE` (- is standard output)")
	return cmd
}
