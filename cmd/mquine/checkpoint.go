package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/train/run"
	"github.com/mquine/mquine/train/search"
)

const checkpointFlag = "checkpoint"

// addCheckpoint lets a command accept a checkpoint as its only argument or as the value of
// --checkpoint. The former name of the flag is --model.
func addCheckpoint(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, checkpointFlag, "", "the checkpoint, instead of the argument `CKPT`")
	inGroup(cmd, inputFlags, checkpointFlag)
	must(cmd.MarkFlagDirname(checkpointFlag))
	markInput(cmd, checkpointFlag)
	acceptFormer(cmd, map[string]string{"model": checkpointFlag})

	cmd.Annotations = map[string]string{checkpointArgs: ""}
	cmd.ValidArgsFunction = completeFirst(1, cobra.ShellCompDirectiveFilterDirs)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		given := cmd.Flags().Changed(checkpointFlag)
		switch {
		case len(args) > 1:
			return atMostOne("checkpoint", args)
		case len(args) == 1 && given:
			return errors.New("the checkpoint is given twice: leave out the argument, or --checkpoint")
		case len(args) == 0 && !given:
			return fmt.Errorf("give a checkpoint, as in: mquine %s", strings.Replace(cmd.Use, "...", "", 1))
		case len(args) == 1:
			*dir = args[0]
		}
		return nil
	}
}

// openCheckpoint opens the checkpoint that path names, and prints notes to log.
func openCheckpoint(ctx context.Context, log io.Writer, path string, with ...checkpoint.Option,
) (*checkpoint.Checkpoint, error) {
	dir, err := findCheckpoint(ctx, log, path)
	if err != nil {
		return nil, err
	}
	c, err := checkpoint.Open(ctx, dir, with...)
	if err != nil {
		return nil, err
	}
	if c.VocabularyDir != c.Path {
		printNote(log, "the labels of %s come from %s", c.Path, c.VocabularyDir)
	}
	writeNotes(log, c.Notes)
	return c, nil
}

// findCheckpoint returns the folder of the checkpoint that path names. For the folder of a training
// run, this is the checkpoint of the best epoch; for the folder of a search, it is the checkpoint
// of the best epoch of the best trial. In both cases, a note on log names the checkpoint.
// findCheckpoint returns any other path unchanged.
func findCheckpoint(ctx context.Context, log io.Writer, path string) (string, error) {
	var kind string
	training := path
	switch {
	case exists(path, "model.safetensors"):
		return path, nil
	case exists(path, run.SearchFile):
		kind = "search"
		var err error
		if training, err = search.BestRun(ctx, path); err != nil {
			return "", err
		}
	case exists(path, run.ConfigFile):
		kind = "training run"
		if _, _, err := run.ReadRecipe(ctx, path); err != nil {
			return path, ctx.Err() // perhaps a folder that another tool wrote
		}
	case !exists(path) && isDataset(path):
		return "", fmt.Errorf("%s is a data set, not a checkpoint: give the folder of a checkpoint", path)
	default:
		return path, nil
	}
	best := filepath.Join(training, "best")
	if !exists(best, "model.safetensors") {
		hint := "mquine train --resume " + training + " continues the run"
		if last := filepath.Join(training, "last"); exists(last, "model.safetensors") {
			hint = "use the checkpoint of the last epoch, " + last
		}
		return "", fmt.Errorf("%s is the folder of a %s, but there is no %s: %s", path, kind, best, hint)
	}
	printNote(log, "%s is the folder of a %s: using its best checkpoint, %s", path, kind, best)
	return best, nil
}

// isDataset reports whether a name is the name of an installed data set.
func isDataset(name string) bool {
	_, err := kg.Folder(name)
	return err == nil && !kg.IsFolder(name)
}

// exists reports whether there is a file or folder with the given path.
func exists(path ...string) bool {
	_, err := os.Lstat(filepath.Join(path...))
	return err == nil
}
