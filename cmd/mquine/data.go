package main

import (
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/catalogue"
)

func newDataCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "data",
		Short: "List, describe, fetch, import and make data sets",
		Long: `List, describe, fetch, import and make data sets.

A data set is a folder with the splits train, valid and test. The data sets lie in one folder,
which the environment variable MQUINE_DATA names, and by default in the user's cache. Wherever
mquine takes a data set, it takes a name from that folder or the path of another folder: a value
with a slash is a path.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDataListCommand(), newDataInfoCommand(), newDataGetCommand(), newDataImportCommand(), newDataMakeCommand())
	return cmd
}

func newDataGetCommand() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "get NAME",
		Short: "Fetch a public data set",
		Long: `Fetch a public data set, or what is missing of it, from its public origins.

Every file is checked against the checksum in the catalogue, which is of the uncompressed text
with LF line ends, before it is stored; a copy with CRLF line ends is as good. The data set
appears when it is whole. An interrupted download goes on where it stopped when the same command
is given again; until then it lies in the hidden folder .NAME.part beside the data sets.

--from takes the files from elsewhere: a folder or a .tar.gz or .tgz archive that holds train.txt,
valid.txt and test.txt (each may be compressed, as .gz), or one of these files where only that is
missing. Each may be a path or an http or https address. The checksums must agree all the same.`,
		Example: `  mquine data get fb15k-237
  mquine data get wn18rr --from ~/Downloads/WN18RR.tar.gz
  mquine data get yago3-10 --from https://example.org/mirror/yago3-10/`,
		Args:              oneArg("which data set? Give a name of the catalogue, as in: mquine data get umls"),
		ValidArgsFunction: completeCatalogue,
		RunE: func(cmd *cobra.Command, args []string) error {
			set, known := catalogue.Find(args[0])
			if !known {
				return fmt.Errorf("no public data set %q: the catalogue has %s; \"mquine data import\" takes any other",
					args[0], strings.Join(catalogueNames(), ", "))
			}
			dir, err := kg.DataDir()
			if err != nil {
				return err
			}
			stderr := cmd.ErrOrStderr()
			fetcher := catalogue.NewFetcher(dir)
			var bar transferBar
			if text.OnTerminal(stderr) {
				bar.w = text.Unescaped(stderr)
				fetcher.Progress = bar.show
			}
			fetcher.Log = func(line string) {
				bar.clear()
				printLine(stderr, "%s", line)
			}
			result, err := fetcher.Get(cmd.Context(), set, from)
			bar.clear()
			if err != nil {
				return err
			}
			writeNotes(stderr, result.Notes)
			if len(result.Fetched) == 0 {
				printLine(stderr, "%s is in %s already, and its files are those of the catalogue", set.Name, result.Dir)
			} else {
				printLine(stderr, "fetched %s into %s: %s", set.Name, result.Dir, strings.Join(result.Fetched, ", "))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "folder, archive or file to take the data set from: a `path` or an address")
	return cmd
}

func newDataImportCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "import DIR --name NAME",
		Short: "Add a data set of your own",
		Long: `Read a folder, check it, and store it among the data sets under a name.

The folder holds train, valid and test, at least one of them, as tab-separated text (.txt: head,
relation, tail) or N-Triples (.nt), each also compressed (.gz, .zst). Where it holds a vocabulary
(entities.dict, entity_ids.del or entities.tsv, and the same for relations), the identifiers stay.`,
		Example: `  mquine data import ./my-graph --name my-graph
  mquine eval --model ./checkpoint --data my-graph`,
		Args: oneArg("which folder? Give the one to read, as in: mquine data import ./my-graph --name my-graph"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := kg.DataDir()
			if err != nil {
				return err
			}
			stderr := cmd.ErrOrStderr()
			meter := newMeter(stderr)
			g, err := catalogue.Import(cmd.Context(), dir, args[0], name, kg.ReportProgress(meter.reading(args[0])))
			meter.clear()
			if err != nil {
				return err
			}
			writeNotes(stderr, g.Notes)
			printLine(stderr, "imported %s into %s: %s, %s training, %s validation and %s test triples",
				g.Name, g.Dir, sizes(g.Entities.Len(), g.Relations.Len()),
				text.Comma(len(g.Splits[kg.Train])), text.Comma(len(g.Splits[kg.Valid])), text.Comma(len(g.Splits[kg.Test])))
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "`name` of the data set from now on")
	_ = cmd.MarkFlagRequired("name") // its error is for a flag that does not exist
	return cmd
}

func catalogueNames() []string {
	var names []string
	for _, d := range catalogue.All() {
		names = append(names, d.Name)
	}
	return names
}

// completeCatalogue offers the names of the catalogue to the shell.
func completeCatalogue(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return catalogueNames(), cobra.ShellCompDirectiveNoFileComp
}

// transferBar shows one download after another on a terminal.
type transferBar struct {
	w       io.Writer
	address string
	bar     *progressbar.ProgressBar
}

func (b *transferBar) show(address string, done, total int64) {
	if b.bar == nil || b.address != address {
		b.clear()
		b.address = address
		b.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(b.w),
			progressbar.OptionSetDescription(text.Escape(path.Base(address))),
			progressbar.OptionShowBytes(true),
			progressbar.OptionShowTotalBytes(true),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetSpinnerChangeInterval(0), // no drawing from another goroutine
			progressbar.OptionClearOnFinish(),
		)
	}
	_ = b.bar.Set64(done) // a bar that cannot be drawn must not end a download
}

// clear makes room for other lines.
func (b *transferBar) clear() {
	if b.bar != nil {
		_ = b.bar.Clear()
		b.bar = nil
	}
}
