package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/metrics/classify"
	"github.com/mquine/mquine/rank"
)

func newClassifyCommand() *cobra.Command {
	c := &classification{split: kg.Test, negatives: autoNegatives, thresholds: byRelation, unseen: overall, bins: 10,
		seed: 1, top: metrics.DefaultTop}
	cmd := &cobra.Command{
		Use:   "classify CKPT... --data NAME",
		Short: "Classify triples as true or false",
		Long: `Measure how well the scores of a checkpoint tell true triples from false ones.

A triple counts as true if its score is at least a threshold. Every relation has
its own threshold: the smallest score that gives the highest accuracy on the
true and the false triples of the valid split. CoDEx defines the same thresholds
and measures. Each measure covers all triples of the split:

  accuracy   share of correct predictions
  F1         2TP / (2TP + FP + FN), for the true class
  precision  TP / (TP + FP)
  recall     TP / (TP + FN)
  ROC-AUC    probability that a true triple has a higher score than a false one
  AP         average precision: the area under the precision-recall curve
ROC-AUC and AP compare the scores of all relations and need no threshold.

--negatives: the false triples.
  auto       files if the data set has both files, otherwise generated
  files      valid_negatives.txt and test_negatives.txt, as in CoDEx-S and -M
  generated  for each true triple, a triple with a different head or tail, drawn
             from the entities that have the relation on that side in train. No
             split contains it. --seed changes the draw

--unseen: triples of relations that valid lacks.
  overall  compare with the threshold that is best for all relations together
  true     count as true, as the program of CoDEx does

--side: models with reciprocal relations, and some others, score a triple
differently as an answer to (h, r, ?) and to (?, r, t). both is the mean of the
two scores.

--calibrate turns scores into probabilities: platt fits a logistic curve to
valid, isotonic a non-decreasing, piecewise linear function. The probabilities
assume that true triples are as frequent as in valid. The table shows, for the
evaluated split:

  ECE    expected calibration error: how far the probabilities are from the
         observed shares, on average over --bins bins
  Brier  mean squared error of the probabilities
--calibration writes the fit to a file for "mquine score --calibration" and
"mquine discover --calibration".

` + ensembleHelp + `
--predictions writes a line for each triple of the split: head, relation, tail,
class, score, predicted and probability. --plot draws the reliability, the ROC
curve and the precision-recall curve as SVG. --relations adds a line for every
relation.`,
		Example: `  mquine classify ./ckpt --data codex-s
  mquine classify ./ckpt --data fb15k-237 --seed 7 --relations
  mquine classify ./ckpt --data codex-m --calibrate isotonic --plot c.svg
  mquine classify ./a ./b --ensemble fit --data codex-s
  mquine classify ./ckpt --data umls --calibration cal.json`,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkTableFlags(cmd, c.format, "relations", "top"); err != nil {
				return err
			}
			if cmd.Flags().Changed("top") && !c.relations {
				return errors.New("--top applies to the table of relations: add --relations, or leave it out")
			}
			if c.thresholds == overall && cmd.Flags().Changed("unseen") {
				return errors.New("--unseen applies to thresholds of relations: leave it out, or --threshold overall")
			}
			c.seeded = cmd.Flags().Changed("seed")
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	flags := cmd.Flags()
	c.inputs.add(cmd)
	c.inputs.addEnsemble(cmd)
	addChoice(cmd, &c.split, "split", "classify the triples of this split: test or valid", kg.Test, kg.Valid)
	inGroup(cmd, inputFlags, "split")
	addChoice(cmd, &c.negatives, "negatives", "false triples: auto, files or generated",
		autoNegatives, fileNegatives, generatedNegatives)
	flags.Var(seed{&c.seed}, "seed", "seed of generated false triples")
	addChoice(cmd, &c.side, "side", "score triples as answers to (h, r, ?), tail, to (?, r, t), head, or both",
		rank.TailSide, rank.HeadSide, rank.BothSides)
	addChoice(cmd, &c.thresholds, "threshold", "thresholds: relation (one for each) or overall (one for all)",
		byRelation, overall)
	addChoice(cmd, &c.unseen, "unseen", "relations without a threshold: overall or true", overall, unseenTrue)
	addChoice(cmd, &c.method, "calibrate", "calibration: platt or isotonic", classify.Platt, classify.Isotonic)
	flags.Var(positive{&c.bins, 1000}, "bins", "number of bins for ECE and the plot")
	inGroup(cmd, protocolFlags, "negatives", "seed", "side", "threshold", "unseen", "calibrate", "bins")
	c.compute.add(cmd)
	flags.BoolVar(&c.relations, "relations", false, "also show a line for every relation")
	flags.Var(positive{n: &c.top}, "top", "list at most N relations")
	c.printed.add(cmd)
	addOutput(cmd, &c.calibrationFile, "calibration", jsonFormat, "write the calibration as JSON to `FILE`")
	addOutput(cmd, &c.predictionsFile, "predictions", linesFormat, "write the predictions, tab-separated, to `FILE`")
	addOutput(cmd, &c.plotFile, "plot", svgFormat, "draw the curves as SVG to `FILE`")
	return cmd
}

// Words that flags of classify accept.
const (
	autoNegatives      = "auto"
	fileNegatives      = "files"
	generatedNegatives = "generated"
	byRelation         = "relation"
	overall            = "overall"
	unseenTrue         = "true"
)

// classification classifies triples. It holds the flags of classify.
type classification struct {
	inputs
	compute
	printed
	split              kg.Split
	negatives          string
	seed               uint64
	seeded             bool // --seed was given
	side               rank.Sides
	thresholds, unseen string
	method             classify.Method
	bins, top          int
	relations          bool
	calibrationFile    string
	predictionsFile    string
	plotFile           string
}

func (c *classification) run(cmd *cobra.Command) (err error) {
	ctx, log := cmd.Context(), cmd.ErrOrStderr()
	backend, err := c.compute.resolve()
	if err != nil {
		return err
	}
	s, err := c.inputs.open(ctx, log)
	if err != nil {
		return err
	}
	defer s.close()
	defer func() { err = s.explain(ctx, err) }()
	s.noteData(log, c.ensemble.word == fittedWeights)
	labels, err := kg.ReadLabels(ctx, s.graph.Dir)
	if err != nil {
		return err
	}
	report := &classified{relations: c.relations, top: c.top, labels: labels}
	valid, test, err := c.examples(ctx, log, s, rank.Options{Backend: backend, Threads: c.threads}, report)
	if err != nil {
		return err
	}
	evaluated, thresholds, err := classify.Evaluate(valid, test, classify.Options{
		OneThreshold: c.thresholds == overall, UnseenTrue: c.unseen == unseenTrue, Method: c.method, Bins: c.bins,
	})
	if err != nil {
		return err
	}
	if err := s.verify(ctx); err != nil {
		return err
	}
	if evaluated.Calibration.Constant() {
		printNote(log, "every probability is the same, because triples of valid with higher scores are not more "+
			"often true")
	}
	evaluated.Negatives, evaluated.Seed, evaluated.Missing = report.Negatives, report.Seed, report.Missing
	report.Report = *evaluated
	return c.write(cmd, s, report, test, thresholds, backend.Tier.String())
}

// examples scores the true and the false triples of valid and of c.split. It describes the false
// triples in the report.
func (c *classification) examples(
	ctx context.Context, log io.Writer, s *subject, o rank.Options, report *classified,
) (valid, test []classify.Example, err error) {
	negatives, generate, err := c.readNegatives(ctx, s.graph)
	if err != nil {
		return nil, nil, err
	}
	report.Negatives = fileNegatives
	if generate {
		report.Negatives, report.Seed = generatedNegatives, &c.seed
	} else if c.seeded {
		return nil, nil, fmt.Errorf("--seed applies to generated false triples, but the data set %s has files: "+
			"add --negatives generated, or leave out --seed", s.graph.Name)
	}
	index, err := s.buildIndex(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := c.ensemble.fit(ctx, log, newMeter(log), s, index, o); err != nil {
		return nil, nil, err
	}
	if c.split == kg.Valid {
		if c.ensemble.word == fittedWeights {
			printNote(log, fittedToSplit)
		}
		printNote(log, "the thresholds and the calibration were fitted to this split, so the metrics are too good")
	}
	var scored [2][]classify.Example
	for i, split := range c.splits() {
		if i == 1 && split == kg.Valid {
			return scored[0], scored[0], nil
		}
		triples, err := s.graph.Triples(split)
		if err != nil {
			return nil, nil, err
		}
		if generate {
			// Each split has a separate random stream, but a false triple for valid is not drawn for test again.
			seed, used := c.seed+uint64(i)<<32, slices.Concat(negatives[:i]...)
			negatives[i], report.Missing, err = classify.Negatives(ctx, s.graph, index, triples, used, seed)
			if err != nil {
				return nil, nil, err
			}
			if len(triples) > 0 && len(negatives[i]) == 0 {
				return nil, nil, fmt.Errorf("no false triple can be generated for the triples of %v, because all "+
					"entities observed with their relations are known answers: put %[1]v_negatives.txt with false "+
					"triples into %[2]s", split, s.graph.Dir)
			}
		}
		noteNegatives(log, index, split, negatives[i])
		if scored[i], err = classify.Score(ctx, s.model, triples, negatives[i], c.side, o); err != nil {
			return nil, nil, err
		}
	}
	return scored[0], scored[1], nil
}

// splits returns the split that gives the thresholds, and the evaluated split, which may be the same.
func (c *classification) splits() [2]kg.Split { return [2]kg.Split{kg.Valid, c.split} }

// readNegatives reads the false triples of both splits, unless they must be generated.
func (c *classification) readNegatives(
	ctx context.Context, g *kg.Graph,
) (negatives [2][]kg.Triple, generate bool, err error) {
	if c.negatives == generatedNegatives {
		return negatives, true, nil
	}
	for i, split := range c.splits() {
		negatives[i], err = kg.ReadNegatives(ctx, g, split)
		switch {
		case err != nil:
			return negatives, false, err
		case negatives[i] == nil && c.negatives == fileNegatives:
			return negatives, false, fmt.Errorf("data set %s has no false triples for %v: put %[2]v_negatives.txt "+
				"into %[3]s, or generate them with --negatives generated", g.Name, split, g.Dir)
		case negatives[i] == nil:
			return negatives, true, nil
		}
	}
	return negatives, false, nil
}

// noteNegatives prints notes about false triples that repeat or are true.
func noteNegatives(log io.Writer, index *kg.Index, split kg.Split, negatives []kg.Triple) {
	known, repeats, seen := 0, 0, make(map[kg.Triple]bool, len(negatives))
	for _, t := range negatives {
		if index.Splits(t) != 0 {
			known++
		}
		if seen[t] {
			repeats++
		}
		seen[t] = true
	}
	if repeats > 0 {
		printNote(log, "%s again", text.Count(repeats,
			fmt.Sprintf("false triple for %v repeats an earlier one, and counts", split),
			fmt.Sprintf("false triples for %v repeat earlier ones, and count", split)))
	}
	if known > 0 {
		printNote(log, "%s in the data set", text.Count(known,
			fmt.Sprintf("false triple for %v is a true triple", split),
			fmt.Sprintf("false triples for %v are true triples", split)))
	}
}

// write writes the output files and the result.
func (c *classification) write(
	cmd *cobra.Command, s *subject, r *classified, test []classify.Example, thresholds classify.Thresholds,
	tier string,
) error {
	ctx := cmd.Context()
	r.Provenance, r.Split, r.Side = computedOn(ctx, tier, c.threads, ""), c.split.String(), c.side.String()
	err := s.describe(ctx, &r.Provenance, c.wantsJSON() || c.calibrationFile != "")
	if err != nil {
		return err
	}
	for i := range r.Relations {
		relation := &r.Relations[i]
		relation.Name = s.graph.Relations.Label(relation.ID)
		relation.Label = r.labels[relation.Name]
	}
	if c.calibrationFile != "" {
		err = writeJSON(cmd, c.calibrationFile, calibrationFile{
			Schema: calibrationSchema, Provenance: r.Provenance, VocabularySHA256: s.vocabularyDigest(),
			Side: r.Side, Negatives: r.Negatives, Calibration: *r.Calibration,
		})
	}
	if c.predictionsFile != "" {
		header, rows := predictions(s.graph, test, thresholds, r.Calibration)
		err = errors.Join(err, writeTo(cmd.Context(), cmd.OutOrStdout(), c.predictionsFile, func(w io.Writer) error {
			return text.WriteRecords(w, text.FormatTSV, header, rows)
		}))
	}
	if c.plotFile != "" {
		err = errors.Join(err, writeFile(cmd, c.plotFile, plotClassification(r, test)))
	}
	if c.calibrationFile == "-" || c.predictionsFile == "-" || c.plotFile == "-" {
		if c.jsonFile != "" {
			err = errors.Join(err, writeJSON(cmd, c.jsonFile, r))
		}
		return errors.Join(err, c.printed.printTo(cmd.ErrOrStderr(), r))
	}
	return errors.Join(err, c.print(cmd, r))
}

// predictions returns a line for each triple.
func predictions(
	g *kg.Graph, examples []classify.Example, t classify.Thresholds, c *classify.Calibration,
) (header []string, rows iter.Seq[[]string]) {
	return []string{"head", "relation", "tail", "class", "score", "predicted", "probability"},
		func(yield func([]string) bool) {
			for _, e := range examples {
				h, r, tail := e.Triple.Head, e.Triple.Relation, e.Triple.Tail
				row := []string{
					g.Entities.Label(h), g.Relations.Label(r), g.Entities.Label(tail),
					strconv.FormatBool(e.True), strconv.FormatFloat(e.Score, 'g', -1, 64),
					strconv.FormatBool(t.Predict(e)), strconv.FormatFloat(c.Probability(e.Score), 'g', -1, 64),
				}
				if !yield(row) {
					return
				}
			}
		}
}

// classified is the JSON result of classify.
type classified struct {
	classify.Report
	relations bool
	top       int
	labels    map[string]string // readable labels of relations
}

func (r *classified) tables() []*text.Table {
	t := text.NewTable(1, 2, 3, 4, 5, 6, 7, 8)
	m := r.Result
	t.Title = fmt.Sprintf("%s: %s, %s true and %s false triples (%s), side %s, %v calibration",
		r.Provenance.Data.SplitText(r.Split), r.Provenance.Checkpoint.ModelText(), text.Comma(m.TP+m.FN),
		text.Comma(m.TN+m.FP), r.Negatives, r.Side, r.Calibration.Method)
	t.AppendHeader([]any{"accuracy", "F1", "precision", "recall", "ROC-AUC", "AP", "ECE", "Brier"})
	var row []any
	for _, n := range []metrics.Number{
		m.Accuracy, m.F1, m.Precision, m.Recall, m.ROCAUC, m.AP, r.Reliability.ECE, r.Reliability.Brier,
	} {
		row = append(row, n.Format(4))
	}
	t.AppendRow(row)
	if !r.relations {
		return []*text.Table{t}
	}
	relations := text.NewTable(2, 3, 4, 5, 6)
	relations.Title, relations.Caption = "By relation", t.Title
	relations.AppendHeader([]any{"relation", "triples", "threshold", "accuracy", "F1", "ROC-AUC"})
	for _, x := range r.Relations[:min(r.top, len(r.Relations))] {
		threshold := "none"
		if x.Threshold != nil {
			threshold = strconv.FormatFloat(*x.Threshold, 'g', 6, 64)
		}
		relations.AppendRow([]any{
			text.WithLabel(x.Name, x.Label), text.Comma(x.N), threshold, x.Accuracy.Format(4), x.F1.Format(4),
			x.ROCAUC.Format(4),
		})
	}
	return []*text.Table{t, relations}
}

func (r *classified) remarks() []string {
	var lines []string
	if more := len(r.Relations) - r.top; r.relations && more > 0 {
		lines = append(lines, fmt.Sprintf("… and %s more: raise --top to list them.",
			text.Plural(more, "relation")))
	}
	thresholds := "Thresholds of relations, and the calibration, come from valid."
	if r.Thresholds == overall {
		thresholds = fmt.Sprintf("The threshold of all relations, %.6g, and the calibration come from valid.",
			r.Threshold)
	}
	lines = append(lines, thresholds)
	if r.Unseen > 0 {
		as := fmt.Sprintf("with the overall threshold, %.6g", r.Threshold)
		if r.UnseenAs == unseenTrue {
			as = "that count as true"
		}
		lines = append(lines, fmt.Sprintf("Relations that valid lacks: %s %s.", text.Plural(r.Unseen, "triple"), as))
	}
	if r.Missing > 0 {
		lines = append(lines, fmt.Sprintf("No false triple can be generated for %s of %s.",
			text.Plural(r.Missing, "true triple"), r.Split))
	}
	return lines
}

// records returns a line for the split and a line for each relation.
func (r *classified) records() (header []string, rows iter.Seq[[]string]) {
	p, seed := r.Provenance, ""
	if r.Seed != nil {
		seed = strconv.FormatUint(*r.Seed, 10)
	}
	line := func(relation, label, threshold string, m classify.Result, ece, brier string) []string {
		row := []string{p.Data.Name, r.Split, p.Checkpoint.PathText(), p.Checkpoint.Model, relation, label, threshold}
		row = append(row, text.Fields(m.N, m.TP, m.FP, m.TN, m.FN)...)
		for _, n := range []metrics.Number{m.Accuracy, m.F1, m.Precision, m.Recall, m.ROCAUC, m.AP} {
			row = append(row, n.Exact())
		}
		return append(row, ece, brier, r.Side, r.Calibration.Method.String(), r.Negatives, seed, r.Thresholds,
			r.UnseenAs)
	}
	return []string{
			"data", "split", "checkpoint", "model", "relation", "label", "threshold", "n", "tp", "fp", "tn", "fn",
			"accuracy", "f1", "precision", "recall", "roc_auc", "average_precision", "ece", "brier", "side",
			"calibration", "negatives", "seed", "thresholds", "unseen_as",
		}, func(yield func([]string) bool) {
			threshold := "" // the measures of the split come from the thresholds of all relations
			if r.Thresholds == overall {
				threshold = strconv.FormatFloat(r.Threshold, 'g', -1, 64)
			}
			ece, brier := r.Reliability.ECE.Exact(), r.Reliability.Brier.Exact()
			if !yield(line("", "", threshold, r.Result, ece, brier)) {
				return
			}
			for _, x := range r.Relations {
				threshold := ""
				if x.Threshold != nil {
					threshold = strconv.FormatFloat(*x.Threshold, 'g', -1, 64)
				}
				if !yield(line(x.Name, x.Label, threshold, x.Result, "", "")) {
					return
				}
			}
		}
}
