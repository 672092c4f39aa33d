package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/model/checkpoint/formats"
)

func newImportCommand() *cobra.Command {
	i := &importing{}
	cmd := &cobra.Command{
		Use:   "import DIR OUT",
		Short: "Convert a checkpoint of another tool",
		Long: `Convert a checkpoint of another tool to mquine's format. The ranks stay the same.
The converted checkpoint is self-contained: it holds the labels.

The other commands read such a folder, too. The files tell which tool wrote it:

` + toolHelp() + `
The labels come from the tool's own vocabulary files: the command looks for them
in the folder, then in the folder of --vocab and, for rotate, in the data_path
of config.json. docs/checkpoint.md lists the models of each tool that can be
read.

Nothing in the folder is executed: pickles are read by a parser that knows only
tensors, dictionaries and plain values.`,
		Example: `  mquine import ./models/RotatE_FB15k-237 ./rotate
  mquine import --from pykeen ./complex-pykeen ./complex
  mquine import ./TransE_wn18rr ./transe --vocab ./data/wn18rr`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) < 2:
				return errors.New("give the folder to read and the folder to write, as in: " +
					"mquine import DIR OUT")
			case len(args) > 2:
				return fmt.Errorf("unexpected argument %q: the command accepts two folders", args[2])
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 1 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return i.run(cmd.Context(), cmd.ErrOrStderr(), args[0], args[1])
		},
	}
	cmd.Flags().SortFlags = false
	addChoice(cmd, &i.from, "from", "stop unless this tool wrote the folder", formats.Names()...)
	inGroup(cmd, inputFlags, "from")
	addVocabulary(cmd, &i.vocabulary)
	return cmd
}

// importing converts a checkpoint. It holds the flags of import.
type importing struct {
	from, vocabulary string
}

func (i *importing) run(ctx context.Context, log io.Writer, dir, out string) error {
	if err := checkNew(out); err != nil {
		return err
	}
	c, err := openCheckpoint(ctx, log, dir, i.vocabulary)
	if err != nil {
		return err
	}
	defer c.Close()
	switch {
	case !slices.Contains(formats.Names(), c.Format):
		return fmt.Errorf("%s is already a checkpoint in the format %s: use it directly", dir, c.Format)
	case i.from != "" && i.from != c.Format:
		return fmt.Errorf("%s was written by %s, not by %s: change --from, or omit it", dir, c.Format, i.from)
	}
	metadata := maps.Clone(c.Metadata)
	metadata["dataset"] = c.Dataset
	metadata["imported_from"] = c.Format
	if metadata["imported_sha256"], err = c.SHA256(ctx); err != nil {
		return err
	}
	if err := c.Save(ctx, out, metadata); err != nil {
		return err
	}
	config := c.Model.Config()
	printLine(log, "wrote %s: %s, d = %d, %s, trained on %s",
		out, config.Model, config.Dim, sizes(config.Entities, config.Relations), c.Dataset)
	return nil
}

// toolHelp returns a line for each tool with the files that identify its folders.
func toolHelp() string {
	var list strings.Builder
	fmt.Fprintf(&list, "  %-8s %s\n", formats.Rotate, "config.json, entity_embedding.npy, relation_embedding.npy")
	for _, f := range formats.All {
		fmt.Fprintf(&list, "  %-8s %s\n", f.Name, f.Files)
	}
	return list.String()
}

// addVocabulary adds the flag --vocab.
func addVocabulary(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "vocab", "",
		"read the labels from `DIR`, for a checkpoint of another tool without them")
	inGroup(cmd, inputFlags, "vocab")
	must(cmd.MarkFlagDirname("vocab"))
	markInput(cmd, "vocab")
}
