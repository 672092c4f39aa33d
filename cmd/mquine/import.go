package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"

	"github.com/spf13/cobra"
)

// rotateTool is the RotatE repository, as --from names it.
const rotateTool = "rotate"

func newImportCommand() *cobra.Command {
	i := &importing{}
	cmd := &cobra.Command{
		Use:   "import --from TOOL DIR OUT",
		Short: "Make a checkpoint of another tool's",
		Long: `Make a checkpoint of another tool's, with the same numbers and so with the same ranks.

  --from rotate  a folder that the RotatE repository wrote (config.json, entity_embedding.npy and
                 relation_embedding.npy), with TransE, DistMult, ComplEx, RotatE or pRotatE. The
                 labels are in entities.dict and relations.dict: in the folder, else in that of
                 --vocab, else in the folder of the data that config.json names.

The other commands take such a folder as --model as it is; a checkpoint of one's own is one file
with everything in it. Nothing in the folder is executed, and no pickle is read.`,
		Example: `  mquine import --from rotate ./models/RotatE_FB15k-237 ./rotate
  mquine import --from rotate ./models/TransE_wn18rr ./transe --vocab ./data/wn18rr`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) < 2:
				return errors.New("give the folder to read and the folder to write, as in: mquine import --from rotate DIR OUT")
			case len(args) > 2:
				return fmt.Errorf("unexpected argument %q: the command takes the folder to read and the folder to write", args[2])
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
	addChoice(cmd, &i.from, "from", "`tool` that wrote the folder: rotate", rotateTool)
	markRequired(cmd, "from")
	addVocabulary(cmd, &i.vocabulary)
	return cmd
}

// importing makes a checkpoint of another tool's.
type importing struct {
	from, vocabulary string
}

func (i *importing) run(ctx context.Context, log io.Writer, dir, out string) error {
	if _, err := os.Lstat(out); err == nil {
		return fmt.Errorf("%s exists already: remove it or choose another folder", out)
	}
	c, err := openCheckpoint(ctx, dir, i.vocabulary)
	if err != nil {
		return err
	}
	defer c.Close()
	if c.Format != i.from {
		return fmt.Errorf("%s is no folder of the RotatE repository but a checkpoint %s already", dir, c.Format)
	}
	writeVocabularyNote(log, c)
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
	cmd.Flags().StringVar(dir, "vocab", "", "`folder` with entities.dict and relations.dict, for another tool's checkpoint without them")
	must(cmd.MarkFlagDirname("vocab"))
	markInput(cmd, "vocab")
}
