package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/compressed"
	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model/checkpoint/npy"
	"github.com/mquine/mquine/rank"
)

// negativesHelp describes the flags of negatives.
const negativesHelp = `--tail-negatives and --head-negatives rank the true tails and heads among given
candidates only, as OGB does. Line i lists the candidates for triple i of the
split, without the true answer: labels, separated by tabs. A .npy file has rows
of integers, each the label of an entity. With these flags, the default filter
is none, so the lists are used unchanged.
`

// negatives holds the flags that give every query its own candidates: a file for each side.
type negatives [2]string

func (n *negatives) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		name := side.String() + "-negatives"
		flags.StringVar(&n[side], name, "",
			fmt.Sprintf("rank each %v among its own candidates: a line of `FILE`, or a row of a .npy file", side))
		markInput(cmd, name)
		inGroup(cmd, candidateFlags, name)
	}
}

func (n *negatives) given() bool { return *n != negatives{} }

// checkNegatives refuses flags that contradict --tail-negatives and --head-negatives. Flags that never
// go with given negatives come first, because adding the lists that are missing would not help.
func (e *evaluation) checkNegatives() error {
	given := e.negatives.given()
	if !given && e.fixed.Name != metrics.OGB {
		return nil
	}
	restriction := optionalFlag{e.restriction.given(), e.restriction.flag()}
	if name := firstGiven(append([]optionalFlag{restriction}, e.screenFlags()...)...); name != "" {
		return fmt.Errorf("%s does not apply to a ranking among given negatives: leave it out", name)
	}
	if e.skipUnknown {
		return fmt.Errorf("--%s does not apply to given negatives, which have a line for each triple of the split: "+
			"leave it out", skipUnknownFlag)
	}
	if !given {
		return errors.New("--protocol ogb ranks among given candidates: " +
			"add --tail-negatives FILE and --head-negatives FILE")
	}
	subject, other := fmt.Sprintf("--side %v", e.sides), "side"
	if e.named() {
		subject, other = "--protocol "+e.protocol, "protocol"
	}
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		given, ranked := e.negatives[side] != "", slices.Contains(e.sides.List(), side)
		switch {
		case ranked && !given:
			return fmt.Errorf("%s also ranks %vs: add --%[2]v-negatives FILE, or choose another %[3]s",
				subject, side, other)
		case given && !ranked:
			return fmt.Errorf("%s does not rank %vs: leave out --%[2]v-negatives, or choose another %[3]s",
				subject, side, other)
		}
	}
	return nil
}

// load reads the candidates for the triples, on each side with a file, and describes them. If
// digest is true, the description contains checksums of the files.
func (n *negatives) load(
	ctx context.Context, g *kg.Graph, triples []kg.Triple, digest bool,
) (*rank.Negatives, *metrics.Restrictions, error) {
	lists, described := new(rank.Negatives), new(metrics.Restrictions)
	for side, into := range []**metrics.Restriction{kg.Tail: &described.Tail, kg.Head: &described.Head} {
		path := n[side]
		if path == "" {
			continue
		}
		answers := make([]int32, len(triples))
		for i, t := range triples {
			_, answers[i] = t.Query(kg.Side(side))
		}
		array, err := isArray(ctx, path)
		switch {
		case err != nil:
		case array:
			lists[side], err = readArray(ctx, path, g.Entities, answers)
		default:
			lists[side], err = kg.ReadCandidates(ctx, path, checkpointOwner, g.Entities, answers)
		}
		if err != nil {
			return nil, nil, adviseMissing(err, "check the name of the file")
		}
		r := &metrics.Restriction{Kind: metrics.GivenNegatives, Names: []string{path}}
		for i, list := range lists[side] {
			if i == 0 || len(list) < r.Fewest {
				r.Fewest = len(list)
			}
			r.Entities = max(r.Entities, len(list))
		}
		if digest {
			if r.SHA256, err = digestFile(ctx, path); err != nil {
				return nil, nil, err
			}
		}
		*into = r
	}
	return lists, described, nil
}

// isArray reports whether a file is an array of NumPy, by its name or its first bytes. Other binary
// formats are an error, because their contents as text would cause a confusing one. A pipe, whose
// first bytes can be read only once, is text.
func isArray(ctx context.Context, path string) (bool, error) {
	named := strings.EqualFold(filepath.Ext(path), ".npy")
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return named, nil // the reader reports any error
	}
	file, err := compressed.Open(ctx, path)
	if err != nil {
		return named, nil
	}
	defer file.Close()
	start := make([]byte, 6)
	n, _ := io.ReadFull(file, start)
	switch start = start[:n]; {
	case string(start) == "\x93NUMPY" && compressed.Is(path):
		return false, fmt.Errorf("%s is a compressed NumPy array: decompress it first", path)
	case string(start) == "\x93NUMPY":
		return true, nil
	case bytes.HasPrefix(start, []byte("PK\x03\x04")):
		return false, fmt.Errorf("%s is a ZIP archive, such as torch.save and numpy.savez write: "+
			"save the array with numpy.save", path)
	case n > 1 && start[0] == 0x80 && start[1] >= 2 && start[1] <= 5:
		return false, fmt.Errorf("%s is a pickle: save the array with numpy.save", path)
	}
	return named, nil
}

// readArray reads the candidates of queries from a .npy file, as kg.ReadCandidates does from text.
// A row holds the candidates of a query: integers, which are labels of v.
func readArray(ctx context.Context, path string, v *kg.Vocabulary, answers []int32) (lists [][]int32, err error) {
	defer fault.Guard().Catch(&err)
	f, err := npy.OpenIntegers(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	shape := f.Shape()
	if len(shape) == 2 && shape[1] == 0 {
		return nil, fmt.Errorf("%s has shape %v, so its rows are empty: list at least one candidate in each",
			path, shape)
	}
	if len(shape) != 2 || shape[0] != len(answers) {
		return nil, fmt.Errorf("%s has shape %v, but there are %s to rank: give a row of candidates for each, "+
			"in the order of the split", path, shape, text.Plural(len(answers), "triple"))
	}
	ids := make(map[int64]int32, v.Len())
	for id, label := range v.Labels() {
		if n, err := strconv.ParseInt(label, 10, 64); err == nil && strconv.FormatInt(n, 10) == label {
			ids[n] = int32(id)
		}
	}
	lists = make([][]int32, len(answers))
	all := make([]int32, len(answers)*shape[1])
	for row := range lists {
		if row%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		list := all[row*shape[1] : (row+1)*shape[1]]
		for i := range list {
			label := f.Integer(row*shape[1] + i)
			id, ok := ids[label]
			switch {
			case !ok:
				return nil, fmt.Errorf("%s: row %d, counted from 0: the checkpoint has no entity with the label %d: "+
					"an integer stands for the entity with this label", path, row, label)
			case id == answers[row]:
				return nil, fmt.Errorf("%s: row %d, counted from 0: %d is the true answer to this query: "+
					"list only its competitors", path, row, label)
			}
			list[i] = id
		}
		slices.Sort(list)
		lists[row] = list
	}
	return lists, nil
}

// digestFile returns the SHA-256 of a file in hexadecimal digits, or nothing if the file is a pipe,
// which cannot be read a second time.
func digestFile(ctx context.Context, path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return "", nil
	}
	sum := sha256.New()
	if err == nil {
		var file *input.Reader
		if file, err = input.Open(ctx, path); err == nil {
			defer file.Close()
			_, err = io.Copy(sum, file)
		}
	}
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", path, text.Cause(err))
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
