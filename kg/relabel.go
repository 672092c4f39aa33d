package kg

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/text"
)

// Relabel returns the graph with the identifiers of different vocabularies, usually a checkpoint's.
// It matches entities and relations by their labels. If the vocabularies lack labels of the graph,
// the error counts them and names the first five. Entities that are only in the vocabularies stay
// candidates, and Notes counts them, unless Restrict had left them out.
func (g *Graph) Relabel(entities, relations *Vocabulary) (*Graph, error) {
	entityOf, err := translate(g, "entity", "entities", g.Entities, entities)
	if err != nil {
		return nil, err
	}
	relationOf, err := translate(g, "relation", "relations", g.Relations, relations)
	if err != nil {
		return nil, err
	}
	out := &Graph{
		Name: g.Name, Dir: g.Dir, Entities: entities, Relations: relations, Notes: g.Notes, leftOut: g.leftOut,
		whole: g.whole, emptied: g.emptied, added: entities.Len() - g.DataEntities(),
		addedRelations: g.addedRelations + newLabels(g.Relations, relations, g.leftOut[1]),
	}
	for s, triples := range g.Splits {
		if triples == nil {
			continue
		}
		out.Splits[s] = make([]Triple, len(triples))
		for i, t := range triples {
			out.Splits[s][i] = Triple{entityOf[t.Head], relationOf[t.Relation], entityOf[t.Tail]}
		}
	}
	if extra := newLabels(g.Entities, entities, g.leftOut[0]); extra > 0 {
		rest := "that are only in the checkpoint stay candidates"
		if extra == 1 {
			rest = "that is only in the checkpoint stays a candidate"
		}
		out.Notes = append(out.Notes[:len(out.Notes):len(out.Notes)],
			fmt.Sprintf("%s %s", text.Count(extra, "entity", "entities"), rest))
	}
	return out, nil
}

// Restrict returns the graph without the entities and relations whose labels two vocabularies lack, and
// without their triples. Notes counts what was left out; owner, such as "the checkpoint", names what has
// the vocabularies. If they have all labels, Restrict returns g. LeftOut counts the triples that were left
// out, and SHA256 still covers them. If no triple of a split remains, Triples returns an error that says why.
// It is an error if no triple remains at all, or if Relabel has added labels to g.
//
// Data sets of PyKEEN lack the entities and relations that are in no training triple, and so do its models.
func (g *Graph) Restrict(owner string, entities, relations *Vocabulary) (*Graph, error) {
	if g.added+g.addedRelations > 0 {
		return nil, fmt.Errorf("%s has labels of a checkpoint: call Restrict before Relabel", text.DataSet(g.Name))
	}
	out := &Graph{
		Name: g.Name, Dir: g.Dir, leftOut: [2]map[string]bool{{}, {}}, whole: cmp.Or(g.whole, g), emptied: g.emptied,
	}
	var entityOf, relationOf []int32
	entityOf, out.Entities = common(g.Entities, entities, out.leftOut[0])
	relationOf, out.Relations = common(g.Relations, relations, out.leftOut[1])
	var lacking, without []string
	if n := len(out.leftOut[0]); n > 0 {
		lacking = append(lacking, text.Count(n, "entity", "entities"))
	}
	if n := len(out.leftOut[1]); n > 0 {
		lacking = append(lacking, text.Count(n, "relation", "relations"))
	}
	if lacking == nil {
		return g, nil
	}
	all, remaining := 0, 0
	for s, triples := range g.Splits {
		if triples == nil {
			continue
		}
		kept := make([]Triple, 0, len(triples))
		for _, t := range triples {
			n := Triple{entityOf[t.Head], relationOf[t.Relation], entityOf[t.Tail]}
			if n.Head >= 0 && n.Relation >= 0 && n.Tail >= 0 {
				kept = append(kept, n)
			}
		}
		out.Splits[s] = kept
		if len(kept) == 0 && len(triples) > 0 {
			out.emptied[s] = fmt.Sprintf("%s lacks labels of every %v triple", owner, Split(s))
		}
		remaining += len(kept)
		if n := len(triples) - len(kept); n > 0 {
			without = append(without, text.Comma(n)+" "+Split(s).String())
			all += n
		}
	}
	if remaining == 0 && all > 0 {
		return nil, fmt.Errorf("%s: %s lacks labels of every triple: use the data set of the checkpoint",
			text.DataSet(g.Name), owner)
	}
	left := "no triple"
	if all == 1 {
		left = without[0] + " triple"
	} else if all > 1 {
		left = text.Join(without, "and") + " triples"
	}
	out.Notes = append(slices.Clone(g.Notes), fmt.Sprintf("%s lacks %s of the data: left out %s",
		owner, text.Join(lacking, "and"), left))
	for i, labels := range g.leftOut { // if an earlier call made g
		maps.Copy(out.leftOut[i], labels)
	}
	return out, nil
}

// common returns the labels of from that the vocabulary to has, and for every identifier of from its
// identifier among them, or -1. It adds the other labels to leftOut.
func common(from, to *Vocabulary, leftOut map[string]bool) (ids []int32, kept *Vocabulary) {
	ids = make([]int32, from.Len())
	var labels []string
	for i, label := range from.Labels() {
		if _, ok := to.ID(label); !ok {
			ids[i] = -1
			leftOut[label] = true
			continue
		}
		ids[i] = int32(len(labels))
		labels = append(labels, label)
	}
	return ids, NewVocabulary(labels...)
}

// newLabels counts the labels of a vocabulary that are neither in from, all of which it contains, nor left
// out.
func newLabels(from, to *Vocabulary, leftOut map[string]bool) int {
	n := to.Len() - from.Len()
	for label := range leftOut {
		if _, ok := to.ID(label); ok {
			n--
		}
	}
	return n
}

// translate returns, for every identifier of one vocabulary, the identifier of its label in
// another.
func translate(g *Graph, one, many string, from, to *Vocabulary) ([]int32, error) {
	ids := make([]int32, from.Len())
	var missing []string
	for i, label := range from.Labels() {
		id, ok := to.ID(label)
		if !ok {
			missing = append(missing, label)
		}
		ids[i] = id
	}
	if len(missing) > 0 {
		const most = 5
		examples := strings.Join(missing[:min(most, len(missing))], ", ")
		if len(missing) > most {
			examples += ", …"
		}
		for s := range NumSplits {
			if g.header(s) != "" {
				examples += fmt.Sprintf("; the first line of %v may be a header", s)
				break
			}
		}
		return nil, fmt.Errorf("%s: the checkpoint lacks %s of the data (%s): "+
			"use the checkpoint's data set",
			text.DataSet(g.Name), text.Count(len(missing), one, many), examples)
	}
	return ids, nil
}
