package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func newInfoCommand() *cobra.Command {
	var jsonFile, vocabulary string
	cmd := &cobra.Command{
		Use:   "info [CKPT]",
		Short: "Describe a checkpoint",
		Long: `Describe a checkpoint: the tool that wrote it, its model, size and metadata,
the folder of its labels, and its tensors with their shapes, NaN and infinite
values, and the Euclidean norms of their rows. The protocol is the value of
"mquine eval --protocol" that computes the metrics of the tool.

The command describes a damaged checkpoint as far as possible. If "mquine eval"
refuses the checkpoint, the exit status is 1. Long metadata values are
shortened, but not in --json.

Without a checkpoint, the command does the same as "mquine doctor".`,
		Example: `  mquine info ./checkpoint
  mquine info ./checkpoint --json checkpoint.json`,
		Args:              func(_ *cobra.Command, args []string) error { return atMostOne("checkpoint", args) },
		Annotations:       map[string]string{checkpointArgs: ""},
		ValidArgsFunction: completeFirst(1, cobra.ShellCompDirectiveFilterDirs),
		PreRunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && vocabulary != "" {
				return errors.New("--vocab needs a checkpoint")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return doctor(cmd, jsonFile)
			}
			info, err := describeCheckpoint(cmd.Context(), cmd.ErrOrStderr(), args[0], vocabulary)
			if err != nil {
				return err
			}
			if err := writeResult(cmd, jsonFile, info); err != nil {
				return err
			}
			if info.Problem != "" {
				return fmt.Errorf("mquine eval refuses the checkpoint: %s", info.Problem)
			}
			return nil
		},
	}
	addVocabulary(cmd, &vocabulary)
	jsonFlag(cmd, &jsonFile)
	return cmd
}
