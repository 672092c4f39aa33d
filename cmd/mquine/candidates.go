package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
)

// candidatesHelp describes the flags of restriction.
const candidatesHelp = `--candidates: which entities may answer a query.
  FILE      the entities in a file: one label in each line
  observed  the entities that train has on this side of the relation
--candidate-type TYPE allows the entities to which the file of --types gives
this type. Each line of the file is an entity and a type, separated by a tab,
and optionally a readable name of the type. TYPE is a type or its name. Repeat
the flag to allow several types. --tail-candidates and --tail-type restrict only
the tails, --head-candidates and --head-type only the heads.
`

// observedCandidates is the value of --candidates that stands for the observed entities.
const observedCandidates = "observed"

// restriction holds the flags that restrict candidates.
type restriction struct {
	types string
	// both applies to both sides, and one[side] to a single side.
	both sideRestriction
	one  [2]sideRestriction
	skip bool
}

// sideRestriction is a list of candidates, or types of candidates.
type sideRestriction struct {
	list  string
	types []string
}

func (s sideRestriction) given() bool { return s.list != "" || len(s.types) > 0 }

func (r *restriction) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&r.both.list, "candidates", "", "rank among the entities in `FILE`, or among observed ones")
	flags.StringVar(&r.one[kg.Tail].list, "tail-candidates", "", "like --candidates, for tails: `FILE` or observed")
	flags.StringVar(&r.one[kg.Head].list, "head-candidates", "", "like --candidates, for heads: `FILE` or observed")
	flags.StringVar(&r.types, "types", "", "read the types of entities from `FILE`")
	flags.StringArrayVar(&r.both.types, "candidate-type", nil, "rank among the entities of `TYPE`")
	flags.StringArrayVar(&r.one[kg.Tail].types, "tail-type", nil, "rank tails among the entities of `TYPE`")
	flags.StringArrayVar(&r.one[kg.Head].types, "head-type", nil, "rank heads among the entities of `TYPE`")
	names := []string{"candidates", "tail-candidates", "head-candidates"}
	for _, name := range names {
		markInput(cmd, name)
		// Complete a beginning of "observed" to this word, and anything else to the name of a file.
		complete(cmd, name, func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			if typed != "" && strings.HasPrefix(observedCandidates, typed) {
				return []string{observedCandidates}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		})
	}
	markInput(cmd, "types")
	inGroup(cmd, candidateFlags, append(names, "types", "candidate-type", "tail-type", "head-type")...)
}

// of returns the restriction of a side.
func (r *restriction) of(side kg.Side) sideRestriction {
	if r.one[side].given() {
		return r.one[side]
	}
	return r.both
}

// check refuses flags that contradict each other. It removes repeated types.
func (r *restriction) check() error {
	for _, types := range []*[]string{&r.both.types, &r.one[kg.Tail].types, &r.one[kg.Head].types} {
		var distinct []string
		for _, name := range *types {
			if !slices.Contains(distinct, name) {
				distinct = append(distinct, name)
			}
		}
		*types = distinct
	}
	typed := false
	for i, s := range []sideRestriction{r.both, r.one[kg.Tail], r.one[kg.Head]} {
		of := [][2]string{
			{"candidates", "candidate-type"}, {"tail-candidates", "tail-type"}, {"head-candidates", "head-type"},
		}[i]
		if s.list != "" && len(s.types) > 0 {
			return fmt.Errorf("give --%s or --%s, not both", of[0], of[1])
		}
		if len(s.types) > 0 && r.types == "" {
			return fmt.Errorf("--%s needs a file with the types of the entities: add --types FILE", of[1])
		}
		typed = typed || len(s.types) > 0
	}
	if r.types != "" && !typed {
		return errors.New("--types alone restricts nothing: add --candidate-type, --tail-type or --head-type")
	}
	return nil
}

// checkSides refuses a restriction of one side if no query asks for that side, and a restriction of both
// sides if a flag for one side replaces it wherever queries ask.
func (r *restriction) checkSides(asked func(kg.Side) bool) error {
	used, replaced := false, false
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		used = used || asked(side) && !r.one[side].given()
		replaced = replaced || asked(side) && r.one[side].given()
	}
	if r.both.given() && replaced && !used {
		return fmt.Errorf("%s has no effect beside the flags that restrict single sides: leave it out", r.flag())
	}
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		one := r.one[side]
		if !one.given() || asked(side) {
			continue
		}
		flag := "type"
		if one.list != "" {
			flag = "candidates"
		}
		return fmt.Errorf("--%v-%s restricts %[1]vs, but no query asks for %[1]vs: leave it out", side, flag)
	}
	return nil
}

// given reports whether a flag restricts the candidates.
func (r *restriction) given() bool { return r.both.given() || r.one[0].given() || r.one[1].given() }

// flag returns the name of a flag that restricts the candidates, or "".
func (r *restriction) flag() string {
	name := func(s sideRestriction, list, types string) string {
		if s.list != "" {
			return list
		} else if len(s.types) > 0 {
			return types
		}
		return ""
	}
	return cmp.Or(name(r.both, "--candidates", "--candidate-type"),
		name(r.one[kg.Tail], "--tail-candidates", "--tail-type"),
		name(r.one[kg.Head], "--head-candidates", "--head-type"))
}

// load returns the candidates and their description. Both are nil if no flag restricts the
// candidates. Notes go to log.
func (r *restriction) load(
	ctx context.Context, s *subject, log io.Writer,
) (*rank.Candidates, *metrics.Restrictions, error) {
	if !r.given() {
		return nil, nil, nil
	}
	g := s.graph
	var types *kg.Types
	if r.types != "" {
		var err error
		if types, err = kg.ReadTypes(ctx, r.types, g.Entities); err != nil {
			return nil, nil, adviseMissing(err, "check the name of the file")
		}
		if n := types.Skipped(); n > 0 {
			printNote(log, "skipped %s of %s that the checkpoint lacks", text.Plural(n, "entity"), r.types)
		}
	}
	lists := map[string][]int32{}
	among := rank.NewCandidates(g.Relations.Len())
	described := &metrics.Restrictions{}
	for side, into := range []**metrics.Restriction{kg.Tail: &described.Tail, kg.Head: &described.Head} {
		of := r.of(kg.Side(side))
		if !of.given() {
			continue
		}
		var err error
		if *into, err = of.apply(ctx, g, types, lists, among, kg.Side(side)); err != nil {
			return nil, nil, err
		}
	}
	return among, described, nil
}

// apply restricts the candidates in among for one side, and describes the restriction. It keeps the
// contents of files in lists, because a pipe can be read only once.
func (s sideRestriction) apply(
	ctx context.Context, g *kg.Graph, types *kg.Types, lists map[string][]int32, among *rank.Candidates, side kg.Side,
) (*metrics.Restriction, error) {
	if s.list == observedCandidates {
		if !g.Has(kg.Train) {
			return nil, fmt.Errorf("observed candidates need the train split, which data set %s does not have: "+
				"put train.txt into %s, or list the candidates in a file", g.Name, g.Dir)
		}
		if err := among.Observe(ctx, g, side); err != nil {
			return nil, err
		}
		most := 0
		for r := range g.Relations.Len() {
			list, _ := among.Of(kg.Query{Side: side, Relation: int32(r)})
			most = max(most, len(list))
		}
		return &metrics.Restriction{Kind: metrics.ObservedCandidates, Entities: most}, nil
	}
	described := &metrics.Restriction{Kind: metrics.TypedCandidates, Names: s.types}
	var entities []int32
	if s.list != "" {
		described.Kind, described.Names = metrics.ListedCandidates, []string{s.list}
		if lists[s.list] == nil {
			list, err := kg.ReadList(ctx, s.list, checkpointOwner, "entity", g.Entities)
			if err != nil {
				return nil, adviseMissing(err, "name a file, or write observed")
			}
			lists[s.list] = list
		}
		entities = slices.Clone(lists[s.list])
	}
	for _, name := range s.types {
		members, err := types.Members(name)
		if err != nil {
			return nil, err
		}
		entities = append(entities, members...)
	}
	slices.Sort(entities)
	entities = slices.Compact(entities)
	among.RestrictAll(side, entities)
	described.Entities = len(entities)
	labels := make([]string, len(entities))
	for i, e := range entities {
		labels[i] = g.Entities.Label(e)
	}
	slices.Sort(labels) // checkpoints number the entities differently
	sum := sha256.New()
	for _, label := range labels {
		_, _ = io.WriteString(sum, label+"\n") // a hash never fails
	}
	described.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return described, nil
}

// checkRestriction refuses flags about candidates that have no effect.
func (e *evaluation) checkRestriction() error {
	if e.skip && !e.restriction.given() {
		return errors.New("--skip-excluded applies to restricted candidates: " +
			"add --candidates or a type, or leave it out")
	}
	return e.restriction.checkSides(func(side kg.Side) bool { return slices.Contains(e.sides.List(), side) })
}

// shownTargets is the maximum number of queries that the error from checkTargets lists.
const shownTargets = 5

// checkTargets counts the queries whose target is not one of their candidates. Without
// --skip-excluded, they are an error.
func (e *evaluation) checkTargets(log io.Writer, t *task) error {
	var first []string
	var excluded [3]int // by side
	n := 0
	for _, side := range e.sides.List() {
		for _, triple := range t.triples {
			q, answer := triple.Query(side)
			if t.among.Has(q, answer) {
				continue
			}
			excluded[side]++
			if n++; n <= shownTargets {
				f := question{side, triple}.fields(t.graph)
				first = append(first,
					fmt.Sprintf("%q of (%s, %s, %s)", t.graph.Entities.Label(answer), f[0], f[1], f[2]))
			}
		}
	}
	total := len(e.sides.List()) * len(t.triples)
	switch {
	case n == 0:
		return nil
	case !e.skip:
		return fmt.Errorf("the true answers to %s of %s, such as %s, are not among the candidates: "+
			"add them to the candidates, or leave these queries out with --skip-excluded",
			text.Plural(n, "query"), text.Comma(total), strings.Join(first, ", "))
	case n == total:
		return errors.New("no true answer is among the candidates: choose other candidates")
	}
	t.restrictions.Excluded = n
	for side, r := range []*metrics.Restriction{kg.Tail: t.restrictions.Tail, kg.Head: t.restrictions.Head} {
		if r != nil {
			r.Excluded = excluded[side]
		}
	}
	printNote(log, "%s of %s left out, because the true answer is not among the candidates",
		text.Plural(n, "query"), text.Comma(total))
	return nil
}

// leaveOut removes the ranks of targets that are not candidates.
func (t *task) leaveOut(r *rank.Ranking) {
	if t.restrictions == nil || t.restrictions.Excluded == 0 {
		return
	}
	excluded := func(r rank.Rank) bool { return !t.among.Has(r.Triple.Query(r.Side)) }
	r.Ranks = slices.DeleteFunc(r.Ranks, excluded)
	for i := range r.Near {
		r.Near[i] = slices.DeleteFunc(r.Near[i], excluded)
	}
}

// identifyCandidates sets the digests of the candidates of ranks if the candidates are restricted. The
// digest of a query is the sum of 32 bits from the checksum of each candidate's label, so it depends
// neither on the order of the candidates nor on the checkpoint.
func (t *task) identifyCandidates(ranks []rank.Rank) {
	if t.restrictions == nil {
		return
	}
	labels := make([]uint32, t.graph.Entities.Len())
	every := make([]int32, len(labels))
	for e, label := range t.graph.Entities.Labels() {
		sum := sha256.Sum256([]byte(label))
		labels[e], every[e] = binary.BigEndian.Uint32(sum[:]), int32(e)
	}
	add := func(entities ...int32) (digest uint32) {
		for _, e := range entities {
			digest += labels[e]
		}
		return digest
	}
	of := map[kg.Query]uint32{} // lists depend only on side and relation
	for i := range ranks {
		r := &ranks[i]
		q, target := r.Triple.Query(r.Side)
		if t.negatives != nil {
			r.CandidatesDigest = add(t.negatives[r.Side][i%len(t.triples)]...) + add(target)
			continue
		}
		key := kg.Query{Side: q.Side, Relation: q.Relation}
		digest, ok := of[key]
		if !ok {
			list, all := t.among.Of(q)
			if all {
				list = every
			}
			digest = add(list...)
			of[key] = digest
		}
		r.CandidatesDigest = digest
	}
}
