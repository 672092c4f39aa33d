package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/synth"
)

func newDataMakeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "make families|zipf --out DIR",
		Short: "Generate a data set",
		Long: `Generate a data set and write it to a new folder.

The same sizes and seed give the same files, byte for byte, on every machine.
The data set has exactly the given sizes; impossible sizes are an error. No
triple occurs twice. Every entity and relation occurs in a training triple.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("give families or zipf, as in: mquine data make families --out ./families")
		},
	}
	cmd.AddCommand(newMakeFamiliesCommand(), newMakeZipfCommand())
	return cmd
}

func newMakeFamiliesCommand() *cobra.Command {
	var out string
	var cfg synth.Config
	cmd := &cobra.Command{
		Use:   "families --out DIR",
		Short: "Generate a small data set with rules that a model can learn",
		Long: `Generate a small data set of families and films, with rules that a model can
learn.

The data set has relations of all categories (1-1, 1-N, N-1, N-N). Symmetric,
inverse and composed relations hold without exception, unless --train leaves
facts out. In each planted Z-pattern, (e1, r, e2), (e3, r, e2) and (e3, r, e4)
are facts, but (e1, r, e4) is false. The command prints the number of
regularities of each kind, and how many test triples follow from training
triples.`,
		Example: `  mquine data make families --out ./families
  mquine data make families --out ./large --entities 5000 --seed 2`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkNewData(out); err != nil {
				return err
			}
			g, planted, err := synth.Families(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			if err := writeMade(cmd, out, g); err != nil {
				return err
			}
			reportPlanted(cmd, g, planted)
			return nil
		},
	}
	makeFlags(cmd, &out, &cfg, "400", "17", "all other facts", "a twentieth of the facts")
	return cmd
}

func newMakeZipfCommand() *cobra.Command {
	var out string
	var cfg synth.Config
	cmd := &cobra.Command{
		Use:   "zipf --out DIR",
		Short: "Generate a data set with the skew of YAGO3-10, for benchmarks",
		Long: `Generate a data set of any size with the skew of YAGO3-10, for benchmarks.

At the default size, the top 5% of the entities account for 42% of all heads and
tails, and two relations have most of the triples, as in YAGO3-10. Much denser
graphs have less skew. The number of entity groups is about the square root of
the number of entities. Each relation connects the entities of a group to one
other group and to the few most frequent entities. A label names the group:
g012_e000345 is entity 345 in group 12.`,
		Example: `  mquine data make zipf --out ./yago-shape
  mquine data make zipf --out ./small --entities 10000 --relations 20`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkNewData(out); err != nil {
				return err
			}
			g, _, err := synth.Zipf(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return writeMade(cmd, out, g)
		},
	}
	makeFlags(cmd, &out, &cfg, "123182", "37", "1079040, scaled with the entities", "5000, scaled with the entities")
	return cmd
}

// makeFlags adds the flags that all generators share. The parameters entities, relations, train and
// heldOut are the default sizes, as the help texts state them.
func makeFlags(cmd *cobra.Command, out *string, cfg *synth.Config, entities, relations, train, heldOut string) {
	flags := cmd.Flags()
	flags.StringVar(out, "out", "", "new folder `DIR` for the data set")
	markRequired(cmd, "out")
	must(cmd.MarkFlagDirname("out"))

	sizes := []struct {
		n               *int
		flag, of, usual string
	}{
		{&cfg.Entities, "entities", "entities", entities},
		{&cfg.Relations, "relations", "relations", relations},
		{&cfg.Train, "train", "training triples", train},
		{&cfg.Valid, "valid", "validation triples", heldOut},
		{&cfg.Test, "test", "test triples", heldOut},
	}
	for _, s := range sizes {
		flags.Var(positive{s.n, synth.Largest}, s.flag, fmt.Sprintf("number of %s (default %s)", s.of, s.usual))
	}
	cfg.Seed = 1
	flags.Var(seed{&cfg.Seed}, "seed", "random seed")
}

// writeMade writes g to the folder dir and prints its sizes.
func writeMade(cmd *cobra.Command, dir string, g *kg.Graph) error {
	g.Name = filepath.Base(dir)
	if err := kg.Write(cmd.Context(), dir, g); err != nil {
		return err
	}
	printLine(cmd.ErrOrStderr(), "wrote %s: %s", dir, graphSizes(g))
	return nil
}

// reportPlanted prints how often each planted pattern occurs in the data set, and how many test
// triples follow from training triples.
func reportPlanted(cmd *cobra.Command, g *kg.Graph, planted *synth.Planted) {
	w := cmd.ErrOrStderr()
	for _, p := range planted.Patterns {
		labels := make([]string, len(p.Relations))
		for i, r := range p.Relations {
			labels[i] = g.Relations.Label(r)
		}
		fmt.Fprintf(w, "  %-9s  %-44s  %9s\n", p.Kind, strings.Join(labels, ", "), text.Comma(p.Count))
	}
	fmt.Fprintf(w, "%s of the test triples follow from training triples in one step\n", text.Comma(planted.Implied))
}
