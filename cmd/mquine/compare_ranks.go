package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/compressed"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model/checkpoint/formats"
	"github.com/mquine/mquine/rank"
)

// isRanksFile reports whether a path leads to a file with ranks, and not to a checkpoint.
func isRanksFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && formats.Find(path) == nil
}

// read reads the ranks from a file that eval wrote.
func (c *comparison) read(ctx context.Context, log io.Writer, number int, name string) (*competitor, error) {
	path := c.models[number]
	g, err := c.readData(ctx, log)
	if err != nil {
		return nil, err
	}
	var labels map[string]string
	if number == 0 {
		writeNotes(log, g.Notes)
		if labels, err = kg.ReadLabels(ctx, g.Dir); err != nil {
			return nil, err
		}
	}
	file, err := c.readRanks(ctx, path, g)
	if err != nil {
		return nil, err
	}
	ranks, missing, err := c.align(path, file.Ranks, g)
	if err != nil {
		return nil, err
	}
	if file.Restricted {
		if err := checkRestricted(path, ranks, c.filter); err != nil {
			return nil, err
		}
	} else {
		c.noteCandidates(log, path, ranks, g)
	}
	printLine(log, "read the ranks of %s from %s", text.Plural(len(ranks), "query"), path)
	if number == 0 { // the other files lack the same queries and have the same tolerance
		c.noteMissing(log, path, len(missing))
		c.noteTies(log, path, file.Tolerance)
	}
	identified := slices.ContainsFunc(ranks, func(r rank.Rank) bool { return r.CandidatesDigest != 0 })
	return &competitor{
		ComparedCheckpoint: metrics.ComparedCheckpoint{
			Name: name, Checkpoint: metrics.Checkpoint{Path: path}, Ranks: ranks,
			Restricted: file.Restricted, Tolerance: file.Tolerance,
		},
		graph: g, missing: missing, unidentified: file.Restricted && !identified, labels: labels,
	}, nil
}

// readRanks reads the file at path, and checks that it has ranks under the filter of the comparison.
func (c *comparison) readRanks(ctx context.Context, path string, g *kg.Graph) (*metrics.RanksFile, error) {
	file, err := compressed.Open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the ranks of %s: %w", path, text.Cause(err))
	}
	defer file.Close()
	// align names the difference to a file of another split, so the limit allows for every split and side.
	most := 3 * (len(g.Splits[kg.Train]) + len(g.Splits[kg.Valid]) + len(g.Splits[kg.Test]))
	// ReadRanks adds the labels of ranks on other sides, which may be of other triples.
	entities, relations := kg.NewVocabulary(g.Entities.Labels()...), kg.NewVocabulary(g.Relations.Labels()...)
	ranks, err := metrics.ReadRanks(path, file, most, entities, relations)
	if err == nil && !slices.Contains(ranks.Filters, c.filter) {
		err = fmt.Errorf("%s has no ranks under filter %v: choose --filter %s",
			path, c.filter, strings.Join(names(ranks.Filters), " or "))
	}
	return ranks, err
}

// align returns the ranks of the file at path in the order of the queries of the comparison, and the
// positions of the queries that the file lacks.
func (c *comparison) align(path string, ranks []rank.Rank, g *kg.Graph) ([]rank.Rank, []int, error) {
	triples, err := g.Triples(c.split)
	if err != nil {
		return nil, nil, err
	}
	aligned, missing, err := metrics.Align(ranks, triples, c.sides.List(), c.skip)
	if err != nil {
		advice := ""
		if _, _, err := metrics.Align(ranks, triples, c.sides.List(), true); err == nil {
			advice = "; after mquine eval --" + skipUnknownFlag + ", give compare this flag too"
		}
		return nil, nil, fmt.Errorf("%s does not match the %v split of %s: %w%s", path, c.split, g.Name, err, advice)
	}
	return aligned, missing, nil
}

// noteCandidates prints a note if the ranks need more candidates than the data set has.
func (c *comparison) noteCandidates(log io.Writer, path string, ranks []rank.Rank, g *kg.Graph) {
	known, noun := g.Entities.Len(), "entity"
	if c.sides == rank.RelationSide {
		known, noun = g.Relations.Len(), "relation"
	}
	if n := fewestCandidates(ranks, c.filter); n > known {
		printNote(log, "%s has a rank among at least %s candidates, but data set %s has only %s: "+
			"check the file, unless its checkpoint has more", path, text.Comma(n), g.Name, text.Plural(known, noun))
	}
}

// noteMissing prints a note if the file at path lacks queries.
func (c *comparison) noteMissing(log io.Writer, path string, missing int) {
	if missing == 0 {
		return
	}
	them := "them"
	if missing == 1 {
		them = "it"
	}
	printNote(log, "%s lacks %s of the %v split, as after mquine eval --skip-excluded or --%s: the comparison "+
		"is without %s", path, text.Plural(missing, "query"), c.split, skipUnknownFlag, them)
}

// noteTies prints a note if the tolerance of the ranks is of a protocol with another tie rule.
func (c *comparison) noteTies(log io.Writer, path string, tolerance rank.Tolerance) {
	for _, p := range metrics.Protocols {
		if tolerance != (rank.Tolerance{}) && p.Tolerance == tolerance && p.Ties != c.ties {
			printNote(log, "%s has ranks of --protocol %s, whose ties are %v, but the comparison has %v ties: "+
				"add --ties %[3]v to compare as %[2]s does", path, p.Name, p.Ties, c.ties)
		}
	}
}

// fewestCandidates returns the number of candidates that the ranks need: the target and all candidates
// that are not worse.
func fewestCandidates(ranks []rank.Rank, f rank.Filter) (n int) {
	for i := range ranks {
		n = max(n, 1+int(ranks[i].Better[f])+int(ranks[i].Equal[f]))
	}
	return n
}

// checkRestricted returns an error if the better and equal candidates of a query are as many as all, so none is
// left for the target. A program that does not count the target writes such lines for targets that rank last.
func checkRestricted(path string, ranks []rank.Rank, f rank.Filter) error {
	for i := range ranks {
		better, equal, all := ranks[i].Better[f], ranks[i].Equal[f], ranks[i].Candidates[f]
		if int64(better)+int64(equal) >= int64(all) {
			return fmt.Errorf("%s has a query with %d better and %d equal candidates among %d, which must include "+
				"the target: count the target in column %v_candidates", path, better, equal, all, f)
		}
	}
	return nil
}
