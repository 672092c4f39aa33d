package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/rank"
)

func newSimilarCommand() *cobra.Command {
	s := &similarity{k: 10}
	cmd := &cobra.Command{
		Use:   "similar CKPT ENTITY…",
		Short: "List the entities with the most similar embeddings",
		Long: `List the entities, or with --relations the relations, whose embeddings are most
similar to the given ones. The search is exact.

--by: how to compare two embeddings. Higher is more similar.
  cosine      cosine of the angle between them
  dot         dot product
  comparison  the distance of the model, with a negative sign: for TransE-L1,
              RotatE and other models that compare vectors by a distance. Only
              for entities

The embedding of an entity or a relation is its row of numbers in the checkpoint
or, if it has several rows, all of them, one after the other, as in
"mquine export".

If --data names a data set with labels.tsv, tables show its labels.`,
		Example: `  mquine similar ./ckpt steroid
  mquine similar ./ckpt --data codex-s Q142 Q183 -k 5
  mquine similar ./ckpt --relations isa --by dot --format json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("give a checkpoint and at least one label, as in: mquine similar CKPT ENTITY")
			}
			return nil
		},
		Annotations:       map[string]string{checkpointArgs: "", labelArgs: ""},
		ValidArgsFunction: completeFirst(1, cobra.ShellCompDirectiveFilterDirs),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := s.find(cmd.Context(), cmd.ErrOrStderr(), args[0], args[1:])
			if err != nil {
				return err
			}
			return s.print(cmd, found)
		},
	}
	flags := cmd.Flags()
	addVocabulary(cmd, &s.vocabulary)
	addOptionalData(cmd, &s.data)
	flags.BoolVar(&s.relations, "relations", false, "compare relations instead of entities")
	addChoice(cmd, &s.by, "by", "compare by: cosine, dot or comparison", rank.Cosine, rank.DotProduct, rank.Compared)
	flags.VarP(positive{n: &s.k}, "k", "k", "number of similar entities or relations to list")
	inGroup(cmd, queryFlags, "relations", "by", "k")
	s.printed.add(cmd)
	s.compute.add(cmd)
	return cmd
}

// similarity lists similar entities or relations. It holds the flags of similar.
type similarity struct {
	compute
	printed
	vocabulary, data string
	relations        bool
	by               rank.Similarity
	k                int
}

// find lists the entities or relations most similar to the given ones.
func (s *similarity) find(ctx context.Context, log io.Writer, path string, given []string) (*similars, error) {
	backend, err := s.compute.resolve()
	if err != nil {
		return nil, err
	}
	var labels map[string]string
	var dir string
	if s.data != "" {
		if dir, err = kg.Folder(s.data); err != nil {
			return nil, explainData(s.data, err)
		}
		if labels, err = kg.ReadLabels(ctx, dir); err != nil {
			return nil, err
		}
	}
	c, err := openCheckpoint(ctx, log, path, checkpoint.VocabularyFolder(s.vocabulary))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	kind, vocabulary, list := "entity", c.Entities, rank.SimilarEntities
	others, advice := c.Relations, "it is a relation: add --relations"
	if s.relations {
		kind, vocabulary, list = "relation", c.Relations, rank.SimilarRelations
		others, advice = c.Entities, "it is an entity: leave out --relations"
	}
	ids := make([]int32, len(given))
	for i, label := range given {
		if ids[i], err = vocabulary.Find(checkpointOwner, kind, label); err != nil {
			if _, other := others.ID(label); other {
				return nil, fmt.Errorf("%s has no %s %.200q; %s", checkpointOwner, kind, label, advice)
			}
			return nil, explainLabel(ctx, err, dir)
		}
	}
	lists, err := list(ctx, c.Model, ids, s.by, s.k, rank.Options{Backend: backend, Threads: s.threads})
	if err != nil {
		return nil, err
	}
	digest := ""
	if s.wantsJSON() {
		if digest, err = c.SHA256(ctx); err != nil {
			return nil, err
		}
	}
	if err := c.Verify(ctx); err != nil {
		return nil, err
	}
	r := &similars{
		Schema: "mquine.similar/1", Provenance: computedOn(ctx, backend.Tier.String(), s.threads, ""),
		Kind: kind, By: s.by.String(), K: s.k, Similar: []similar{}, labels: labels,
	}
	r.Provenance.Checkpoint = describedCheckpoint(c, digest)
	for i, neighbours := range lists {
		for j, n := range neighbours {
			label := vocabulary.Label(n.ID)
			r.Similar = append(r.Similar, similar{given[i], j + 1, label, labels[label], n.Similarity})
		}
	}
	return r, nil
}

// similars is the JSON result of similar.
type similars struct {
	Schema     string             `json:"schema"`
	Provenance metrics.Provenance `json:"provenance"`
	// Kind is "entity" or "relation", and By is the measure.
	Kind    string    `json:"kind"`
	By      string    `json:"by"`
	K       int       `json:"k"`
	Similar []similar `json:"similar"`

	labels map[string]string
}

// similar is an entity or a relation that is similar to a given one.
type similar struct {
	Of   string `json:"of"`
	Rank int    `json:"rank"`
	Name string `json:"similar"`
	// Label is the readable label of Name, if there is one.
	Label      string  `json:"label,omitempty"`
	Similarity float64 `json:"similarity"`
}

// tables returns a table for each given entity or relation.
func (r *similars) tables() []*text.Table {
	var tables []*text.Table
	for _, x := range r.Similar {
		if x.Rank == 1 {
			t := text.NewTable(1, 3)
			t.Title = "similar to " + withLabel(x.Of, r.labels)
			t.AppendHeader([]any{"rank", r.Kind, r.By})
			tables = append(tables, t)
		}
		tables[len(tables)-1].AppendRow([]any{
			x.Rank, withLabel(x.Name, r.labels), strconv.FormatFloat(x.Similarity, 'g', 6, 64),
		})
	}
	return tables
}

func (r *similars) remarks() []string {
	if len(r.Similar) == 0 {
		return []string{fmt.Sprintf("The checkpoint has no other %s.", r.Kind)}
	}
	return nil
}

// records returns a line for each similar entity or relation.
func (r *similars) records() (header []string, rows iter.Seq[[]string]) {
	return []string{"of", "rank", "similar", "label", r.By}, func(yield func([]string) bool) {
		for _, x := range r.Similar {
			similarity := strconv.FormatFloat(x.Similarity, 'g', -1, 64)
			if !yield([]string{x.Of, strconv.Itoa(x.Rank), x.Name, x.Label, similarity}) {
				return
			}
		}
	}
}
