package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/catalogue"
)

func newDataCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "data",
		Short: "List, describe, download, import, split and generate data sets",
		Long: `List, describe, download, import, split and generate data sets.

A data set is a folder with the splits train, valid and test. Installed data
sets are in the folder that the environment variable MQUINE_DATA names, by
default in your cache. Other commands accept the name of an installed data set
or a path. A value with a slash is a path.`,
	}
	cmd.AddCommand(newDataListCommand(), newDataInfoCommand(), newDataGetCommand(), newDataImportCommand(),
		newDataSplitCommand(), newDataMakeCommand())
	return cmd
}

func newDataGetCommand() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "get NAME",
		Short: "Download a public data set",
		Long: `Download a public data set, or its missing files, from its public sources.

The command checks the uncompressed text of every file, with LF line endings,
against the checksum in the catalogue. A copy with CRLF line endings also
passes. The data set is installed only when it is complete. Run the command
again to resume an interrupted download, which is kept in the hidden folder
.NAME.part.

--from reads the files from a different source: a folder, or a .tar.gz or .tgz
archive, with train.txt, valid.txt and test.txt. Each file may be compressed
(.gz). If only one file is missing, --from may name that file. The source is a
path or an http or https address. The checksums must match here, too.`,
		Example: `  mquine data get fb15k-237
  mquine data get wn18rr --from ~/Downloads/WN18RR.tar.gz
  mquine data get yago3-10 --from https://example.org/mirror/yago3-10/`,
		Args:              oneArg("give the name of a public data set, as in: mquine data get umls"),
		ValidArgsFunction: completeCatalogue,
		RunE: func(cmd *cobra.Command, args []string) error {
			set, known := catalogue.Find(args[0])
			if !known {
				return unknownDataset(args[0])
			}
			dir, err := kg.DataDir()
			if err != nil {
				return err
			}
			stderr := cmd.ErrOrStderr()
			fetcher := catalogue.NewFetcher(dir)
			meter := newMeter(stderr)
			fetcher.Progress = meter.downloading()
			fetcher.Log = func(line string) {
				meter.clear()
				printLine(stderr, "%s", line)
			}
			result, err := fetcher.Get(cmd.Context(), set, from)
			meter.clear()
			if err != nil {
				return err
			}
			writeNotes(stderr, result.Notes)
			if len(result.Fetched) == 0 {
				printLine(stderr, "%s is already in %s, and its files match the catalogue", set.Name, result.Dir)
			} else {
				verb := "downloaded"
				if from != "" && !strings.Contains(from, "://") { // a path
					verb = "copied"
				}
				printLine(stderr, "%s %s into %s: %s", verb, set.Name, result.Dir, strings.Join(result.Fetched, ", "))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&from, "from", "",
		"read the data set from `SOURCE`: a folder, archive, file or address")
	return cmd
}

func newDataImportCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "import DIR --name NAME",
		Short: "Install your own data set",
		Long: `Check a folder and install it as a data set.

The folder must hold at least one of the splits train, valid and test. A split
is tab-separated text (.txt: head, relation, tail) or N-Triples (.nt), and may
be compressed (.gz, .zst). If the folder has vocabularies (entities.dict,
entity_ids.del, entities.tsv or entities.txt, and the same for relations), their
identifiers are kept. So are false triples for mquine classify
(valid_negatives.txt, test_negatives.txt), readable labels (labels.tsv) and the
record of "mquine data split" (split.json).

The folder may also be a data set of OpenKE (train2id.txt, valid2id.txt,
test2id.txt with entity2id.txt and relation2id.txt) or of LibKGE (train.del,
valid.del, test.del with entity_ids.del and relation_ids.del). The triples there
are identifiers, which are kept, too.`,
		Example: `  mquine data import ./my-graph --name my-graph
  mquine eval ./checkpoint --data my-graph`,
		Args: oneArg("give the folder to read, as in: mquine data import ./my-graph --name my-graph"),
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
			printLine(stderr, "imported %s into %s: %s", g.Name, g.Dir, graphSizes(g))
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "install the data set under this `NAME`")
	markRequired(cmd, "name")
	return cmd
}

// checkNewData is like checkNew for the folder of a new data set. It also refuses the name of a public data
// set in the folder of the installed data sets, where every command would compare it with the catalogue.
func checkNewData(dir string) error {
	if err := checkNew(dir); err != nil {
		return err
	}
	target, err := filepath.Abs(place(dir))
	if err != nil {
		return nil // writing the folder reports the error
	}
	parent, name := filepath.Split(target)
	if _, public := catalogue.Find(name); !public {
		return nil
	}
	installed, err := kg.DataDir()
	if err != nil || !sameFile(parent, installed) && filepath.Clean(parent) != place(installed) {
		return nil
	}
	return fmt.Errorf("cannot write %s: %s is the name of a public data set; choose another name", dir, name)
}

// graphSizes returns the numbers of entities, relations and triples as text.
func graphSizes(g *kg.Graph) string {
	return fmt.Sprintf("%s, %s training, %s validation and %s test triples", sizes(g.Entities.Len(), g.Relations.Len()),
		text.Comma(len(g.Splits[kg.Train])), text.Comma(len(g.Splits[kg.Valid])), text.Comma(len(g.Splits[kg.Test])))
}

// unknownDataset returns the error for a data set that is not in the catalogue.
func unknownDataset(name string) error {
	names := catalogueNames()
	hint := "choose from " + strings.Join(names, ", ")
	if similar := text.Similar(name, names, 1); len(similar) > 0 {
		hint = "did you mean " + similar[0] + "? The others are " +
			strings.Join(slices.DeleteFunc(names, func(n string) bool { return n == similar[0] }), ", ")
	}
	return fmt.Errorf("no public data set %q: %s; \"mquine data import\" installs your own", name, hint)
}

// catalogueNames returns the names of the public data sets.
func catalogueNames() []string {
	var names []string
	for _, d := range catalogue.All() {
		names = append(names, d.Name)
	}
	return names
}

// completeCatalogue completes the names of public data sets.
func completeCatalogue(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return catalogueNames(), cobra.ShellCompDirectiveNoFileComp
}
