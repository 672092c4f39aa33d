package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/model/checkpoint"
)

func newExportCommand() *cobra.Command {
	var vocabulary string
	to := &checkpoint.ExportFormat{} // --to is required
	cmd := &cobra.Command{
		Use:   "export CKPT --to FORMAT OUT",
		Short: "Write a checkpoint for other programs",
		Long: `Write the parameters and the labels of a checkpoint in a form that a program can
load with one line of Python. OUT is a new folder.

` + exportHelp() + `
npy holds a file for each tensor, the model and its hyper-parameters in
config.json, and the labels in entities.tsv and relations.tsv: row i of a tensor
belongs to the label with identifier i. mquine reads such a folder as a
checkpoint. docs/checkpoint.md describes the tensors of each model.

safetensors is mquine's own format.

word2vec holds one vector for each entity and each relation: its rows in all
tensors, one after the other. It omits tensors that all triples share. Labels
must not contain spaces. KeyedVectors is in gensim.models.

libkge-ids is npy, except that the labels are in LibKGE's files entity_ids.del
and relation_ids.del.`,
		Example: `  mquine export ./checkpoint --to npy ./arrays
  mquine export ./complex-pykeen --to word2vec ./vectors`,
		Args: func(_ *cobra.Command, args []string) error {
			const usage = "give the checkpoint and the folder to write, as in: mquine export CKPT --to npy OUT"
			switch {
			case len(args) < 2:
				return errors.New(usage)
			case len(args) > 2:
				return fmt.Errorf("unexpected argument %q: %s", args[2], usage)
			}
			return nil
		},
		ValidArgsFunction: completeFirst(2, cobra.ShellCompDirectiveFilterDirs),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx, log := cmd.Context(), cmd.ErrOrStderr()
			if err := checkNew(args[1]); err != nil {
				return err
			}
			c, err := openCheckpoint(ctx, log, args[0], checkpoint.VocabularyFolder(vocabulary))
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.Export(ctx, args[1], to); err != nil {
				return err
			}
			printExported(log, to, args[1])
			return nil
		},
	}
	addVocabulary(cmd, &vocabulary)
	addChoice(cmd, &to, "to", "form of the files", checkpoint.ExportFormats...)
	markRequired(cmd, "to")
	inGroup(cmd, outputFlags, "to")
	return cmd
}

// printExported prints the line of Python that loads the folder.
func printExported(log io.Writer, to *checkpoint.ExportFormat, out string) {
	printLine(log, "wrote %s. In Python:", out)
	printLine(log, "  %s", strings.ReplaceAll(to.Python, "OUT", out))
}

// exportHelp lists the forms and, for each, the line of Python that loads it.
func exportHelp() string {
	var list strings.Builder
	for _, f := range checkpoint.ExportFormats {
		fmt.Fprintf(&list, "  %s\n    %s\n", f.Name, f.Python)
	}
	return list.String()
}
