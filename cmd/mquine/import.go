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

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/model/checkpoint/formats"
)

func newImportCommand() *cobra.Command {
	i := &importing{}
	cmd := &cobra.Command{
		Use:   "import [DIR] OUT",
		Short: "Convert a checkpoint of another tool",
		Long: `Convert a checkpoint of another tool to mquine's format. The ranks stay the
same. The converted checkpoint is self-contained: it holds the labels.

The other commands also read checkpoints of other tools directly. The files in
the folder of a checkpoint show which tool wrote it:

` + toolHelp() + `
--from tensors converts the tables of any other program: name the model, the
tables of entities and relations, and the files with their labels. A table is
FILE.npy, FILE.safetensors:TENSOR or, for a PyTorch file, FILE:TENSOR.
FILE:OUTER/TENSOR is a tensor in the dictionary OUTER.

The labels of a tool's folder come from the tool's own vocabulary files. The
command looks for them in the folder, then in the folder of --vocab and, for
rotate, in the data_path of config.json. docs/checkpoint.md lists the supported
models of each tool.

--verify compares the scores of some triples with the scores that the tool
computed, and writes nothing if they differ by more than float32 arithmetic
explains. The file has lines head<TAB>relation<TAB>tail<TAB>score, or names its
columns in the first line. A column with the name "side" says which entity was
predicted: "tail" or "head".

The command executes nothing in the folder: its parser for pickles accepts only
tensors, dictionaries and plain values.`,
		Example: `  mquine import ./models/RotatE_FB15k-237 ./rotate
  mquine import --from pykeen ./complex-pykeen ./complex
  mquine import ./TransE_wn18rr ./transe --vocab ./data/wn18rr
  mquine import ./complex-pykeen ./complex --verify scores.tsv
  mquine import --from tensors --model complex --layout interleaved \
    --entity e.npy --relation model.pt:state/rel --reciprocal offset \
    --entities entities.tsv --relations relations.tsv ./out`,
		Args: func(_ *cobra.Command, args []string) error {
			want, usage := 2, "the folder to read and the folder to write, as in: mquine import DIR OUT"
			if i.from == formats.Tensors {
				want, usage = 1, "the folder to write, as in: mquine import --from tensors … OUT"
			}
			switch {
			case len(args) < want:
				return errors.New("give " + usage)
			case len(args) > want:
				return fmt.Errorf("unexpected argument %q: give %s", args[want], usage)
			}
			return nil
		},
		ValidArgsFunction: completeFirst(2, cobra.ShellCompDirectiveFilterDirs),
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return i.check(cmd) },
		RunE: func(cmd *cobra.Command, args []string) error {
			return i.run(cmd.Context(), cmd.ErrOrStderr(), args)
		},
	}
	addChoice(cmd, &i.from, "from", "tool that wrote the folder, or tensors (default: recognised from the files)",
		append(formats.Names(), formats.Tensors)...)
	inGroup(cmd, inputFlags, "from")
	addVocabulary(cmd, &i.vocabulary)
	cmd.Flags().StringVar(&i.scores, "verify", "", "compare with the scores in `FILE`, which the tool computed")
	inGroup(cmd, inputFlags, "verify")
	markInput(cmd, "verify")
	i.addTensors(cmd)
	return cmd
}

// addTensors adds the flags of --from tensors.
func (i *importing) addTensors(cmd *cobra.Command) {
	flags, t := cmd.Flags(), &i.tensors
	addChoice(cmd, &t.Model, "model", "model of the tables", formats.TensorModels()...)
	i.layout = "halves"
	addChoice(cmd, &i.layout, "layout", "order of complex numbers: all real parts first, or interleaved",
		"halves", "interleaved")
	for _, f := range []struct {
		value      *string
		name, help string
	}{
		{&t.Entity, "entity", "`TABLE` of the entities"},
		{&t.Relation, "relation", "`TABLE` of the relations"},
		{&t.Entities, "entities", "`FILE` with the labels of the entities: lines id<TAB>label"},
		{&t.Relations, "relations", "`FILE` with the labels of the relations"},
	} {
		flags.StringVar(f.value, f.name, "", f.help)
	}
	markInput(cmd, "entities")
	markInput(cmd, "relations")
	addChoice(cmd, &t.Inverses, "reciprocal", "the table has 2R relations: the inverse of r is row r + R (offset) "+
		"or, if r is row 2r, row 2r + 1 (interleaved)", "offset", "interleaved")
	i.hyper = addHyper(cmd, formats.TensorModels())
	for name := range i.tensorFlags(cmd) {
		inGroup(cmd, tablesFlags, name)
	}
}

// tensorFlags lists the flags that only --from tensors uses.
func (i *importing) tensorFlags(cmd *cobra.Command) map[string]bool {
	names := map[string]bool{}
	for _, name := range []string{"model", "layout", "entity", "relation", "entities", "relations", "reciprocal"} {
		names[name] = true
	}
	for _, h := range hyperParameters(formats.TensorModels()) {
		names[h.Flag()] = true
	}
	return names
}

// open opens the checkpoint to convert.
func (i *importing) open(ctx context.Context, log io.Writer, args []string) (*checkpoint.Checkpoint, error) {
	if i.from != formats.Tensors {
		return openCheckpoint(ctx, log, args[0], checkpoint.InFormat(i.from),
			checkpoint.VocabularyFolder(i.vocabulary))
	}
	i.tensors.Pairs, i.tensors.Hyper = i.layout == "interleaved", i.hyper()
	c, err := checkpoint.OpenTensors(ctx, i.tensors)
	if err == nil {
		writeNotes(log, c.Notes)
	}
	return c, err
}

// check returns an error if a flag is missing or has no effect.
func (i *importing) check(cmd *cobra.Command) error {
	var given []string
	for _, name := range slices.Sorted(maps.Keys(i.tensorFlags(cmd))) {
		if cmd.Flags().Changed(name) {
			given = append(given, "--"+name)
		}
	}
	if i.from != formats.Tensors {
		if given != nil {
			return fmt.Errorf("%s cannot be given without --from tensors", strings.Join(given, ", "))
		}
		return nil
	}
	for _, name := range []string{"model", "entity", "relation", "entities", "relations"} {
		if !cmd.Flags().Changed(name) {
			return fmt.Errorf("--from tensors needs --%s", name)
		}
	}
	spec, err := model.Lookup(i.tensors.Model)
	if err != nil {
		return err
	}
	for _, h := range spec.Hyper {
		required := h.Default < h.Least // the default of an optional parameter is allowed
		if required && !cmd.Flags().Changed(h.Flag()) {
			return fmt.Errorf("--model %s needs --%s: %s", i.tensors.Model, h.Flag(), h.Help)
		}
	}
	switch {
	case cmd.Flags().Changed("vocab"):
		return errors.New("--vocab cannot be given with --from tensors: " +
			"name the labels with --entities and --relations")
	case cmd.Flags().Changed("layout") && !formats.HasPairs(i.tensors.Model):
		return fmt.Errorf("--layout does not apply to the tables of %s, which hold real numbers: leave it out",
			i.tensors.Model)
	}
	return nil
}

// importing converts a checkpoint. It holds the flags of import.
type importing struct {
	from, vocabulary, scores string

	// tensors, layout and hyper describe the tables of --from tensors.
	tensors formats.TensorFiles
	layout  string
	hyper   func() map[string]float64
}

func (i *importing) run(ctx context.Context, log io.Writer, args []string) error {
	out := args[len(args)-1]
	if err := checkNew(out); err != nil {
		return err
	}
	c, err := i.open(ctx, log, args)
	if err != nil {
		return err
	}
	defer c.Close()
	switch {
	case c.Format == formats.Tensors:
	case !slices.Contains(formats.Names(), c.Format):
		return fmt.Errorf("%s is already a checkpoint in the format %s: use it directly", args[0], c.Format)
	case i.from != "" && i.from != c.Format:
		return fmt.Errorf("%s was written by %s, not by %s: change --from, or omit it", args[0], c.Format, i.from)
	}
	if i.scores != "" {
		n, largest, err := c.CompareScores(ctx, i.scores)
		if err != nil {
			return err
		}
		printLine(log, "compared %s with %s: the largest difference is %.2g",
			text.Plural(n, "score"), i.scores, largest)
	}
	if err := c.Import(ctx, out); err != nil {
		return err
	}
	config := c.Model.Config()
	trained := ""
	if c.Dataset != checkpoint.UnknownDataset {
		trained = ", trained on " + c.Dataset
	}
	printLine(log, "wrote %s: %s, d = %d, %s%s",
		out, config.Model, config.Dim, sizes(config.Entities, config.Relations), trained)
	return nil
}

// toolHelp returns a line for each tool with the files that identify its folders.
func toolHelp() string {
	var list strings.Builder
	width := 0
	for _, f := range formats.All {
		width = max(width, len(f.Name))
	}
	for _, f := range formats.All {
		fmt.Fprintf(&list, "  %-*s  %s\n", width, f.Name, f.Files)
	}
	return list.String()
}

// addVocabulary adds the flag --vocab.
func addVocabulary(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "vocab", "",
		"read the labels from `DIR` if a checkpoint of another tool lacks them")
	inGroup(cmd, inputFlags, "vocab")
	must(cmd.MarkFlagDirname("vocab"))
	markInput(cmd, "vocab")
}
