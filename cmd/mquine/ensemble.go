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

const ensembleHelp = `--ensemble: use the weighted sum of the scores of several checkpoints. Scores
and ranks are as exact as for one checkpoint. The models must compare by dot
product, and have the same entities. The sum contains the negative squares of L2
distances, and omits margins.
  equal   all weights are 1
  fit     weights fitted to the MRR of the valid split. The first that is not 0
          is 1
  1,0.5   one weight for each checkpoint
`

// fittedToSplit is the note about metrics on the split to which the weights were fitted.
const fittedToSplit = "the weights were fitted to this split, so the metrics are too high"

// The words of --ensemble.
const (
	equalWeights  = "equal"
	fittedWeights = "fit"
)

// ensemble holds the flag --ensemble. The zero value means one checkpoint.
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
		e.weights = append(e.weights, math.Abs(w)) // -0 becomes 0
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

// addEnsemble adds --ensemble to a command with one checkpoint, which then accepts several.
func (in *inputs) addEnsemble(cmd *cobra.Command) {
	e := &in.ensemble
	cmd.Flags().Var(e, ensembleFlag,
		"use the weighted sum of the scores of several checkpoints. `WEIGHTS`: equal, fit (to the valid split), "+
			"or numbers separated by commas")
	inGroup(cmd, inputFlags, ensembleFlag)
	complete(cmd, ensembleFlag, cobra.FixedCompletions([]string{equalWeights, fittedWeights},
		cobra.ShellCompDirectiveNoFileComp))
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	one := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch given := cmd.Flags().Changed(ensembleFlag); {
		case !given && len(args) > 1 && !exists(args[1]) && cmd.Flags().Lookup("head") != nil:
			return fmt.Errorf("unexpected argument %q, which is not a file or folder: give labels with --head, "+
				"--relation and --tail, or several checkpoints with --%s %s", args[1], ensembleFlag, equalWeights)
		case !given && len(args) > 1:
			return fmt.Errorf("unexpected argument %q: to use the sum of the scores of several checkpoints, add "+
				"--%s %s; to compare them, use mquine compare", args[1], ensembleFlag, equalWeights)
		case !given:
			return one(cmd, args)
		case cmd.Flags().Changed(checkpointFlag) || len(args) < 2:
			return fmt.Errorf("give the checkpoints of the ensemble as arguments, at least two, as in: mquine %s",
				strings.Replace(cmd.Use, "CKPT...", "CKPT CKPT --"+ensembleFlag+" "+equalWeights, 1))
		case e.word == "" && len(e.weights) != len(args):
			return fmt.Errorf("--%s has %s, but there are %d checkpoints: give one weight for each", ensembleFlag,
				text.Plural(len(e.weights), "weight"), len(args))
		}
		e.paths, in.checkpoint, in.several = args, args[0], true
		return nil
	}
}

// checkDevices refuses GPUs for ensembles.
func (e *ensemble) checkDevices(c compute, g gpus) error {
	if e.paths != nil && (c.backend == cudaBackend || len(g.indices) > 0) {
		return errors.New("--ensemble ranks on the processor: leave it out, or do not use GPUs")
	}
	return nil
}

// join opens the other checkpoints of the ensemble and makes the ensemble the model of the subject.
// Unless the flag lists weights, all weights are 1.
func (e *ensemble) join(ctx context.Context, log io.Writer, in inputs, s *subject) (err error) {
	for _, path := range e.paths[1:] {
		m := member{}
		err = phase(ctx, "checkpoint", func(ctx context.Context) error {
			m.checkpoint, err = openCheckpoint(ctx, log, path, checkpoint.MissingVocabularies(in.vocabulary))
			if err == nil {
				err = in.inverseWeight.apply(m.checkpoint, true)
			}
			return err
		})
		if err != nil {
			return err
		}
		s.members = append(s.members, m)
	}
	first := s.checkpoint
	for i := range s.members[1:] {
		m := &s.members[i+1]
		other := m.checkpoint
		if m.Entities, err = identifiers("entity", first, other, first.Entities, other.Entities); err != nil {
			return err
		}
		if m.Relations, err = identifiers("relation", first, other, first.Relations, other.Relations); err != nil {
			return err
		}
	}
	reciprocal := func(m member) bool { return m.checkpoint.Model.Config().Reciprocal }
	if in.inverseWeight.weight != nil && !first.Model.Config().Reciprocal &&
		!slices.ContainsFunc(s.members[1:], reciprocal) {
		return errors.New("--inverse-weight: no member of the ensemble has reciprocal relations: leave it out")
	}
	weights := e.weights
	if e.word != "" {
		weights = slices.Repeat([]float64{1}, len(e.paths))
	}
	return s.weigh(weights)
}

// identifiers translates the identifiers of the vocabulary from: element i of the result is the
// identifier that label i has in the vocabulary to. It returns nil if the vocabularies are equal.
// If a label is in only one vocabulary, it returns an error that names the checkpoints. what is
// "entity" or "relation".
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

// weigh makes the ensemble with the given weights the model of the subject.
func (s *subject) weigh(weights []float64) (err error) {
	for i := range s.members {
		m := &s.members[i]
		m.Model, m.Weight = m.checkpoint.Model, weights[i]
	}
	s.model, err = model.NewEnsemble(s.modelMembers())
	return err
}

// modelMembers returns the members for model.NewEnsemble.
func (s *subject) modelMembers() (list []model.Member) {
	for _, m := range s.members {
		list = append(list, m.Member)
	}
	return list
}

// fit fits the weights of the ensemble to the validation split, if the flag says so. The subject then
// needs a data set, whose index is index.
func (e *ensemble) fit(
	ctx context.Context, log io.Writer, meter *meter, s *subject, index *kg.Index, o rank.Options,
) error {
	if e.word != fittedWeights {
		return nil
	}
	triples, err := triplesToRank(s.graph, kg.Valid, rank.All)
	if err != nil {
		return err
	}
	o.Sides, o.Tolerances, o.Among, o.Progress = nil, nil, nil, nil
	if o, err = rank.Fit(ctx, s.model, len(triples), o); err != nil {
		return err
	}
	weights, mrr, err := metrics.FitEnsemble(ctx, s.modelMembers(), index, triples, metrics.FitOptions{
		Rank: o, Progress: meter.steps("fitting the weights"),
	})
	meter.clear()
	meter.nextLine = lineEvery // for the ranking that follows
	if err != nil {
		return err
	}
	printLine(log, "fitted the weights %s: mrr/both/all of the valid split is %.4f", formatWeights(weights), mrr)
	for i, w := range weights {
		if w == 0 {
			printNote(log, "%s has weight 0, because the valid split ranks no better with it", e.paths[i])
		}
	}
	return s.weigh(weights)
}
