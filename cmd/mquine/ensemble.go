package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint"
	"github.com/mquine/mquine/rank"
)

const ensembleFlag = "ensemble"

// The words of --ensemble.
const (
	equalWeights  = "equal"
	fittedWeights = "fit"
)

// ensemble holds the flag --ensemble of eval. The zero value means one checkpoint.
type ensemble struct {
	// word is equalWeights or fittedWeights. It is empty if weights are given.
	word    string
	weights []float64
	paths   []string // paths of the checkpoints
}

func (e *ensemble) String() string {
	if e.word != "" {
		return e.word
	}
	return formatWeights(e.weights)
}

func (e *ensemble) Type() string { return "WEIGHTS" }

func (e *ensemble) Set(list string) error {
	e.word, e.weights = "", nil
	if list == equalWeights || list == fittedWeights {
		e.word = list
		return nil
	}
	var sum float64
	for s := range strings.SplitSeq(list, ",") {
		w, err := strconv.ParseFloat(s, 64)
		if err != nil || !(w >= 0) || math.IsInf(w, 0) {
			return fmt.Errorf("must be %s, %s or numbers of at least 0, separated by commas, such as 1,0.5",
				equalWeights, fittedWeights)
		}
		e.weights = append(e.weights, w)
		sum += w
	}
	if sum == 0 {
		return errors.New("at least one weight must be positive")
	}
	return nil
}

func formatWeights(weights []float64) string {
	var list []string
	for _, w := range weights {
		list = append(list, strconv.FormatFloat(w, 'g', -1, 64))
	}
	return strings.Join(list, ",")
}

// add adds the flag to a command with one checkpoint, which then accepts several.
func (e *ensemble) add(cmd *cobra.Command, in *inputs) {
	cmd.Flags().Var(e, ensembleFlag,
		"rank by the weighted sum of the scores of several checkpoints. `WEIGHTS`: equal, fit (to the valid split), "+
			"or numbers separated by commas")
	inGroup(cmd, protocolFlags, ensembleFlag)
	complete(cmd, ensembleFlag, cobra.FixedCompletions([]string{equalWeights, fittedWeights},
		cobra.ShellCompDirectiveNoFileComp))
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	one := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch given := cmd.Flags().Changed(ensembleFlag); {
		case !given && len(args) > 1:
			return fmt.Errorf("unexpected argument %q: to rank the sum of the scores of several checkpoints, add "+
				"--%s %s; to compare them, use mquine compare", args[1], ensembleFlag, equalWeights)
		case !given:
			return one(cmd, args)
		case cmd.Flags().Changed(checkpointFlag) || len(args) < 2:
			return fmt.Errorf("give the checkpoints of the ensemble as arguments, at least two, as in: "+
				"mquine %s CKPT CKPT --%s %s --data NAME", cmd.Name(), ensembleFlag, equalWeights)
		case e.word == "" && len(e.weights) != len(args):
			return fmt.Errorf("--%s has %s, but there are %d checkpoints: give one weight for each", ensembleFlag,
				text.Plural(len(e.weights), "weight"), len(args))
		}
		e.paths, in.checkpoint, in.several = args, args[0], true
		return nil
	}
}

// member is a checkpoint of an ensemble.
type member struct {
	model.Member
	checkpoint *checkpoint.Checkpoint
	sha256     string // empty if no report needs it
}

// join opens the other checkpoints of the ensemble and makes the ensemble the model of the task. Unless
// the flag lists weights, all weights are 1.
func (e *ensemble) join(ctx context.Context, log io.Writer, in inputs, t *task) (err error) {
	t.members = []member{{checkpoint: t.checkpoint}}
	for _, path := range e.paths[1:] {
		m := member{}
		err = phase(ctx, "checkpoint", func(ctx context.Context) error {
			m.checkpoint, err = openCheckpoint(ctx, log, path, checkpoint.MissingVocabularies(in.vocabulary))
			return err
		})
		if err != nil {
			return err
		}
		t.members = append(t.members, m)
	}
	first := t.checkpoint
	for i := range t.members[1:] {
		m := &t.members[i+1]
		other := m.checkpoint
		if m.Entities, err = identifiers("entity", first, other, first.Entities, other.Entities); err != nil {
			return err
		}
		if m.Relations, err = identifiers("relation", first, other, first.Relations, other.Relations); err != nil {
			return err
		}
	}
	weights := e.weights
	if e.word != "" {
		weights = slices.Repeat([]float64{1}, len(e.paths))
	}
	return t.weigh(weights)
}

// identifiers returns, for each label of the vocabulary from, its identifier in the vocabulary to.
// It returns nil if the vocabularies are equal. If a label is in only one vocabulary, it returns an
// error that names the checkpoints. what is "entity" or "relation".
func identifiers(what string, first, other *checkpoint.Checkpoint, from, to *kg.Vocabulary) ([]int32, error) {
	if slices.Equal(from.Labels(), to.Labels()) {
		return nil, nil
	}
	lacks := func(c, than *checkpoint.Checkpoint, label string) error {
		return fmt.Errorf("checkpoint %s lacks %s %q of %s: an ensemble needs checkpoints of one data set",
			c.Path, what, label, than.Path)
	}
	var ids []int32
	for _, label := range from.Labels() {
		id, ok := to.ID(label)
		if !ok {
			return nil, lacks(other, first, label)
		}
		ids = append(ids, id)
	}
	for _, label := range to.Labels() {
		if _, ok := from.ID(label); !ok {
			return nil, lacks(first, other, label)
		}
	}
	return ids, nil
}

// weigh makes the ensemble with the given weights the model of the task.
func (t *task) weigh(weights []float64) (err error) {
	var list []model.Member
	for i := range t.members {
		m := &t.members[i]
		m.Model, m.Weight = m.checkpoint.Model, weights[i]
		list = append(list, m.Member)
	}
	t.model, err = model.NewEnsemble(list)
	return err
}

// fit fits the weights of the ensemble to the validation split, if the flag says so.
func (e *ensemble) fit(
	ctx context.Context, log io.Writer, meter *meter, t *task, split kg.Split, o rank.Options,
) error {
	if e.word != fittedWeights {
		return nil
	}
	triples, err := triplesToRank(t.graph, kg.Valid, rank.All)
	if err != nil {
		return err
	}
	var members []model.Member
	for _, m := range t.members {
		members = append(members, m.Member)
	}
	if o, err = rank.Fit(ctx, t.model, len(triples), o); err != nil {
		return err
	}
	o.Sides, o.Tolerances, o.Among = nil, nil, nil
	weights, mrr, err := metrics.FitEnsemble(ctx, members, t.index, triples, metrics.FitOptions{
		Rank: o, Progress: meter.steps("fitting the weights"),
	})
	meter.clear()
	if err != nil {
		return err
	}
	printLine(log, "fitted the weights %s: mrr/both/all of the valid split is %.4f", formatWeights(weights), mrr)
	if split == kg.Valid {
		printNote(log, "the weights were fitted to the ranked split, so its metrics are too high")
	}
	return t.weigh(weights)
}

// described identifies the checkpoint of the task, or the checkpoints of its ensemble.
func (t *task) described() metrics.Checkpoint {
	if t.members == nil {
		return describedCheckpoint(t.checkpoint.Path, t.checkpoint.Model.Config(), t.sha256)
	}
	c := metrics.Checkpoint{Model: model.EnsembleName}
	for _, m := range t.members {
		c.Members = append(c.Members, metrics.EnsembleMember{
			Weight: m.Weight, Checkpoint: describedCheckpoint(m.checkpoint.Path, m.checkpoint.Model.Config(), m.sha256),
		})
	}
	return c
}

// close closes all checkpoints.
func (t *task) close() {
	t.subject.close()
	for _, m := range t.members[min(1, len(t.members)):] {
		m.checkpoint.Close()
	}
}

// verify returns an error if a checkpoint has changed.
func (t *task) verify(ctx context.Context) error {
	err := t.subject.verify(ctx)
	for _, m := range t.members[min(1, len(t.members)):] {
		if err == nil {
			err = phase(ctx, "verify", m.checkpoint.Verify)
		}
	}
	return err
}

// digest computes the checksums of the parameters.
func (t *task) digest(ctx context.Context) (err error) {
	if t.members == nil {
		t.sha256, err = t.checkpoint.SHA256(ctx)
		return err
	}
	for i := range t.members {
		if t.members[i].sha256, err = t.members[i].checkpoint.SHA256(ctx); err != nil {
			return err
		}
	}
	return nil
}
