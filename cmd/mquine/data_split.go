package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
)

// division holds the flags of data split.
type division struct {
	out         string
	valid, test amount
	seed        uint64
	keepPairs   bool
}

func newDataSplitCommand() *cobra.Command {
	d := division{valid: amount{percent: 5}, test: amount{percent: 5}, seed: 1}
	cmd := &cobra.Command{
		Use:   "split FILE --out DIR",
		Short: "Divide a file of triples into train, valid and test",
		Long: `Divide a file of triples into the splits train, valid and test, and write them
to a new folder.

The file is tab-separated text (head, relation, tail, without a header) or, if
its name ends with .nt, N-Triples. It may be compressed (.gz, .zst). Repeated
triples are left out.

The command goes through the triples in random order. It holds out each triple
unless its head, its tail or its relation would have no training triple left,
until valid and test have the wanted sizes. If it runs out of triples, it says
how many it held out. The seed and the labels determine the splits, so the order
of lines does not matter. split.json in the folder records the file, the
checksum of its triples, the seed and the sizes.

If a graph has inverse or duplicate relations, the answers to many test queries
can be read off training triples. --keep-pairs prevents that: it draws pairs of
entities, and all triples between two entities stay in one split.`,
		Example: `  mquine data split all.tsv --out ./my-graph
  mquine data split facts.nt.gz --out ./my-graph --valid 2000 --test 2000
  mquine train --data ./my-graph --model complex --out ./run`,
		Args:              oneArg("give the file to read, as in: mquine data split all.tsv --out ./my-graph"),
		Annotations:       map[string]string{fileArgs: ""},
		ValidArgsFunction: completeFirst(1, cobra.ShellCompDirectiveDefault),
		RunE:              func(cmd *cobra.Command, args []string) error { return d.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&d.out, "out", "", "new folder `DIR` for the data set")
	markRequired(cmd, "out")
	must(cmd.MarkFlagDirname("out"))
	flags.Var(&d.valid, "valid", "validation triples: a number, or a percentage such as 5%")
	flags.Var(&d.test, "test", "test triples: a number, or a percentage such as 5%")
	flags.Var(seed{&d.seed}, "seed", "random seed")
	flags.BoolVar(&d.keepPairs, "keep-pairs", false, "keep all triples between two entities in one split")
	return cmd
}

func (d *division) run(cmd *cobra.Command, path string) error {
	if path == "-" {
		return errors.New("the command does not read standard input: name a file instead of -")
	}
	if err := checkNewData(d.out); err != nil {
		return err
	}
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	meter := newMeter(stderr)
	all, err := kg.OpenTriples(ctx, path, kg.ReportProgress(meter.reading(path)))
	meter.clear()
	if err != nil {
		return err
	}
	writeNotes(stderr, all.Notes)
	record := splitRecord{Schema: "mquine.data-split/1", File: path, Seed: d.seed, KeepPairs: d.keepPairs}
	record.Version, record.Revision = build()
	if record.SHA256, err = all.SHA256(ctx); err != nil {
		return err
	}
	if record.Repeats, err = all.DropRepeats(ctx); err != nil {
		return err
	}
	if record.Repeats > 0 {
		printNote(stderr, "%s an earlier one: left out", text.Count(record.Repeats, "triple repeats", "triples repeat"))
	}
	n := len(all.Splits[kg.Train])
	sizes := kg.Division{Valid: d.valid.of(n), Test: d.test.of(n), Seed: d.seed, KeepPairs: d.keepPairs}
	if err := d.check(path, n, sizes); err != nil {
		return err
	}
	g, err := all.Divide(ctx, sizes)
	if err != nil {
		return err
	}
	if err := d.checkTaken(path, g, sizes); err != nil {
		return err
	}
	g.Name = filepath.Base(d.out)
	record.Valid = splitSize{d.valid.String(), sizes.Valid, len(g.Splits[kg.Valid])}
	record.Test = splitSize{d.test.String(), sizes.Test, len(g.Splits[kg.Test])}
	record.Train, record.TestLinked = len(g.Splits[kg.Train]), g.Linked(kg.Test)
	if err := record.write(ctx, d.out, g); err != nil {
		return err
	}
	d.report(cmd, g, record)
	return nil
}

// check refuses sizes that leave nothing to train on or hold nothing out.
func (d *division) check(path string, n int, sizes kg.Division) error {
	switch held := sizes.Valid + sizes.Test; {
	case held == 0:
		return errors.New("--valid 0 and --test 0 hold out no triples: leave out one of the two flags")
	case held >= n:
		return fmt.Errorf("--valid %v and --test %v hold out %s, but %s has only %s: hold out fewer",
			&d.valid, &d.test, text.Plural(held, "triple"), path, text.Plural(n, "distinct triple"))
	}
	return nil
}

// checkTaken returns an error if a wanted split would be empty.
func (d *division) checkTaken(path string, g *kg.Graph, sizes kg.Division) error {
	for _, s := range []struct {
		split  kg.Split
		wanted int
	}{{kg.Valid, sizes.Valid}, {kg.Test, sizes.Test}} {
		if s.wanted == 0 || g.Has(s.split) {
			continue
		}
		held := len(g.Splits[kg.Valid]) + len(g.Splits[kg.Test])
		if held == 0 {
			return fmt.Errorf("%s: no triple can be held out, because %s: %s", path, d.reason("each"),
				strings.Join(d.remedies(), ", or "))
		}
		return fmt.Errorf("%s: only %s can be held out, and none is left for the %v split, because %s: "+
			"%s, or leave out the split with --%[3]v 0", path, text.Plural(held, "triple"), s.split,
			d.reason("any other"), strings.Join(d.remedies(), ", "))
	}
	return nil
}

// reason says why some triples cannot be held out.
func (d *division) reason(which string) string {
	what, too := "triple", ""
	if d.keepPairs {
		what, too = "pair of entities", ", or has too many triples"
	}
	return fmt.Sprintf("%s %s is needed so that every entity and relation has a training triple%s", which, what, too)
}

// remedies says how to hold out more triples.
func (d *division) remedies() []string {
	if d.keepPairs {
		return []string{"give more triples", "ask for larger splits", "leave out --keep-pairs"}
	}
	return []string{"give more triples"}
}

// report prints what the folder contains and what to know about it.
func (d *division) report(cmd *cobra.Command, g *kg.Graph, r splitRecord) {
	w := cmd.ErrOrStderr()
	printLine(w, "wrote %s: %s", d.out, graphSizes(g))
	if r.Valid.Triples < r.Valid.Wanted || r.Test.Triples < r.Test.Wanted {
		printNote(w, "held out only %s of %s validation and %s of %s test triples, because %s",
			text.Comma(r.Valid.Triples), text.Comma(r.Valid.Wanted), text.Comma(r.Test.Triples),
			text.Comma(r.Test.Wanted), d.reason("any other"))
	}
	if r.TestLinked > 0 {
		printNote(w, "%s of %s test triples connect entities that a training triple connects: see --keep-pairs",
			text.Comma(r.TestLinked), text.Comma(r.Test.Triples))
	}
}

// splitRecord is the file split.json in a folder that data split wrote. It does not contain the
// date, so the same file and flags give the same folder, byte for byte.
type splitRecord struct {
	Schema   string `json:"schema"`
	Version  string `json:"version,omitempty"`
	Revision string `json:"revision,omitempty"`
	// File is the path that the user gave, and SHA256 is the digest of its triples, including
	// repeated ones, in the order of lines (kg.Graph.SHA256).
	File      string `json:"file"`
	SHA256    string `json:"sha256"`
	Seed      uint64 `json:"seed"`
	KeepPairs bool   `json:"keep_pairs"`
	// Repeats counts the triples that were left out because they repeat an earlier one.
	Repeats int       `json:"repeats"`
	Train   int       `json:"train"`
	Valid   splitSize `json:"valid"`
	Test    splitSize `json:"test"`
	// TestLinked counts the test triples whose entities also have a training triple together.
	TestLinked int `json:"test_linked_in_train"`
}

// splitSize is the size of a held-out split: the value of the flag, the number of triples that this
// value means, and the number of triples that the split has.
type splitSize struct {
	Asked   string `json:"asked"`
	Wanted  int    `json:"wanted"`
	Triples int    `json:"triples"`
}

// write writes g to the new folder dir, with the record.
func (r splitRecord) write(ctx context.Context, dir string, g *kg.Graph) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return kg.Write(ctx, dir, g, kg.Beside("split.json", append(content, '\n')))
}

// amount is a flag whose value is a number of triples or, with %, a share of all triples.
type amount struct {
	n       int
	percent float64
}

func (a *amount) Type() string { return "N" }

func (a *amount) String() string {
	if a.percent > 0 {
		return strconv.FormatFloat(a.percent, 'g', -1, 64) + "%"
	}
	return strconv.Itoa(a.n)
}

func (a *amount) Set(s string) error {
	if digits, percent := strings.CutSuffix(s, "%"); percent {
		p, err := strconv.ParseFloat(digits, 64)
		if err != nil || !(p > 0 && p < 100) { // NaN is not in the range
			return errors.New("must be a percentage between 0% and 100%, such as 5%; 0 without % leaves out the split")
		}
		*a = amount{percent: p}
		return nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if n > 0 && errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("must be at most %s triples", text.Comma(math.MaxInt32))
	}
	if err != nil || n < 0 {
		return errors.New("must be a number of triples, or a percentage such as 5%")
	}
	*a = amount{n: int(n)}
	return nil
}

// of returns the number of triples out of n. A percentage is rounded, but not to 0.
func (a *amount) of(n int) int {
	if a.percent > 0 {
		return max(1, int(math.Round(float64(n)*a.percent/100)))
	}
	return a.n
}
