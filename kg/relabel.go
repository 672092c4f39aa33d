package kg

import (
	"fmt"
	"strings"

	"github.com/mquine/mquine/internal/text"
)

// Relabel returns the graph with the identifiers of different vocabularies, usually a checkpoint's.
// It matches entities and relations by their labels. If the vocabularies lack labels of the graph,
// the error counts them and names the first five. Entities that are only in the vocabularies stay
// candidates, and Notes counts them.
func (g *Graph) Relabel(entities, relations *Vocabulary) (*Graph, error) {
	entityOf, err := translate(g, "entity", "entities", g.Entities, entities)
	if err != nil {
		return nil, err
	}
	relationOf, err := translate(g, "relation", "relations", g.Relations, relations)
	if err != nil {
		return nil, err
	}
	out := &Graph{Name: g.Name, Dir: g.Dir, Entities: entities, Relations: relations, Notes: g.Notes}
	for s, triples := range g.Splits {
		if triples == nil {
			continue
		}
		out.Splits[s] = make([]Triple, len(triples))
		for i, t := range triples {
			out.Splits[s][i] = Triple{entityOf[t.Head], relationOf[t.Relation], entityOf[t.Tail]}
		}
	}
	if extra := entities.Len() - g.Entities.Len(); extra > 0 {
		rest := "that are only in the checkpoint stay candidates"
		if extra == 1 {
			rest = "that is only in the checkpoint stays a candidate"
		}
		out.Notes = append(out.Notes[:len(out.Notes):len(out.Notes)],
			fmt.Sprintf("%s %s", text.Count(extra, "entity", "entities"), rest))
	}
	return out, nil
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
		return nil, fmt.Errorf("data set %s: the checkpoint lacks %s of the data (%s): "+
			"use the checkpoint's data set",
			g.Name, text.Count(len(missing), one, many), examples)
	}
	return ids, nil
}
