package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/spf13/cobra"
)

// rotateTool is the RotatE repository, as --from names it.
const rotateTool = "rotate"

func newImportCommand() *cobra.Command {
	i := &importing{}
	cmd := &cobra.Command{
		Use:   "import --from TOOL DIR OUT",
		Short: "Convert a checkpoint of another tool",
		Long: `Convert a checkpoint of another tool to mquine's format. The parameters and the
ranks stay the same.

--from: the tool that wrote the folder.
  rotate  the RotatE repository: config.json, entity_embedding.npy and
          relation_embedding.npy of TransE, DistMult, ComplEx, RotatE or pRotatE

The labels come from entities.dict and relations.dict. The command looks for
them in the folder, then in the folder of --vocab, then in the data_path of
config.json.

The other commands read such a folder, too. The converted
checkpoint is self-contained: it holds the labels. The command does not execute
anything in the folder and does not read pickles.`,
		Example: `  mquine import --from rotate ./models/RotatE_FB15k-237 ./rotate
  mquine import --from rotate ./TransE_wn18rr ./transe --vocab ./data/wn18rr`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) < 2:
				return errors.New("give the folder to read and the folder to write, as in: " +
					"mquine import --from rotate DIR OUT")
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
	addChoice(cmd, &i.from, "from", "tool that wrote the folder: rotate", rotateTool)
	markRequired(cmd, "from")
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
	if c.Format != i.from {
		return fmt.Errorf("%s is already a checkpoint in the format %s: use it directly", dir, c.Format)
	}
	metadata := maps.Clone(c.Metadata)
	metadata["dataset"] = c.Dataset
	metadata["imported_from"] = i.from
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

// addVocabulary adds the flag --vocab.
func addVocabulary(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "vocab", "",
		"read entities.dict and relations.dict from `DIR`, for a RotatE checkpoint without them")
	inGroup(cmd, inputFlags, "vocab")
	must(cmd.MarkFlagDirname("vocab"))
	markInput(cmd, "vocab")
}
