package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train/internal/stream"
	"github.com/mquine/mquine/train/recipe"
)

// Machine selects the kernels of a training run, its number of threads, and the callback that reports
// progress. Only Backend affects the result.
type Machine struct {
	Backend *kernel.Backend
	Threads int // at least 1
	// Progress, if not nil, is called after every step.
	Progress func(Progress)
}

// Progress is the progress of an epoch.
type Progress struct {
	Epoch, Epochs int
	// Done is the number of training triples used so far, of Total.
	Done, Total int
	Loss        Loss // mean over the epoch so far
	Elapsed     time.Duration
}

// Loss is a mean loss. With kvsall, every step has the weighted mean loss of its queries or parts of
// queries, and counts by their number. Otherwise the mean is over training triples, each of which counts
// with the mean loss of its queries, weighted by subsampling or degree_weights within a step.
type Loss struct {
	Total       float64 `json:"total"`
	Fit         float64 `json:"fit"`                 // loss of targets and negatives
	Z           float64 `json:"z"`                   // loss of Z-samples
	Relations   float64 `json:"relations,omitempty"` // loss of relation prediction
	Regulariser float64 `json:"regulariser"`
}

// EpochResult is the result of an epoch.
type EpochResult struct {
	Epoch            int     `json:"epoch"`
	Loss             Loss    `json:"loss"`
	LearningRate     float64 `json:"learning_rate"`
	Seconds          float64 `json:"seconds"`
	TriplesPerSecond float64 `json:"triples_per_second"`
}

// Trainer trains one model. It is not safe for concurrent use.
//
// The caller decides how often to call Epoch and Validate. The recipe's Epochs affects a decaying learning
// rate, but does not stop the trainer, and ValidEvery, ValidMetric and Patience do not affect it. Package
// train/run follows all of them.
type Trainer struct {
	config  recipe.Recipe
	machine Machine
	graph   *kg.Graph
	triples []kg.Triple // distinct training triples
	queries *queryParts // their queries, in parts; nil unless negatives is kvsall
	order   []int32     // order of the items (triples or parts of queries) in the epoch
	known   *kg.Index

	stepParts []queryPart // items of a step with kvsall

	model, average model.Model // average is the EMA, or nil
	preparer       *preparer
	stepper        *stepper
	optimiser      *optimiser
	kept           gradients // gradients of a step, if clip needs their norm
	epoch          int       // number of epochs done
	failed         error     // the error of an epoch, or nil
}

// NewTrainer returns a trainer for the training split of g, with initial parameters from the
// recipe. g must not change while the trainer is in use.
func NewTrainer(ctx context.Context, c recipe.Recipe, g *kg.Graph, m Machine) (*Trainer, error) {
	if err := checkRun(&c, g, m); err != nil {
		return nil, err
	}
	if err := CheckMemory(ctx, g, m, c); err != nil {
		return nil, err
	}
	given := c.ModelConfig(g.Entities.Len(), g.Relations.Len())
	config, err := model.StartConfig(given, c.Start())
	if err != nil {
		return nil, err
	}
	t, err := newUnfilled(ctx, c, g, m, config)
	if err != nil {
		return nil, err
	}
	start, err := model.Begin(ctx, given, c.Start(), c.Seed)
	if err != nil {
		return nil, err
	}
	return t, t.fill(start)
}

// NewTrainerFrom returns a trainer that changes the parameters of the model start in place and uses
// the model's hyper-parameters. The options in c for hyper-parameters and initial parameters have no
// effect, but must be valid: for example, block_losses needs hyper blocks=2 in c as well. NewTrainerFrom
// does not check the memory; see Memory. g must not change while the trainer is in use.
//
// The parameters must be writable. An open checkpoint usually has them in a mapped file, which is
// read-only, and NewTrainerFrom then returns an error. To continue from a checkpoint, give model.New
// copies of the tensors of its model.
func NewTrainerFrom(
	ctx context.Context, c recipe.Recipe, g *kg.Graph, m Machine, start model.Trainable,
) (*Trainer, error) {
	if err := checkRun(&c, g, m); err != nil {
		return nil, err
	}
	if start == nil {
		return nil, errors.New("train: the model to start from is nil: give one, or call NewTrainer")
	}
	s := start.Config()
	if s.Reciprocal != c.Reciprocal {
		return nil, fmt.Errorf("train: a model with reciprocal: %v cannot start a run with reciprocal: %v",
			s.Reciprocal, c.Reciprocal)
	}
	if s.Model != c.Model || s.Dim != c.Dim || s.Entities != g.Entities.Len() || s.Relations != g.Relations.Len() {
		return nil, fmt.Errorf("train: a %s with d = %d, %d entities and %d relations cannot start a run of %s with "+
			"d = %d on %s, which has %d entities and %d relations", s.Model, s.Dim, s.Entities, s.Relations, c.Model,
			c.Dim, cmp.Or(g.Name, "the data set"), g.Entities.Len(), g.Relations.Len())
	}
	for _, tensor := range start.Tensors() {
		if fault.Watched(unsafe.Pointer(unsafe.SliceData(tensor))) {
			return nil, errors.New("train: the parameters of the model are in a read-only mapped file: " +
				"pass a model with a copy of its tensors (model.New)")
		}
	}
	if c.BlockLosses && start.Training().Blocks == 0 {
		return nil, errors.New("train: a model without blocks cannot start a run with block_losses: true")
	}
	t, err := newUnfilled(ctx, c, g, m, s)
	if err != nil {
		return nil, err
	}
	return t, t.fill(start)
}

// checkRun returns an error if the options are invalid, the machine cannot run them or the data set has
// no training triples.
func checkRun(c *recipe.Recipe, g *kg.Graph, m Machine) error {
	if err := cmp.Or(c.Check(), m.check(), g.CheckIdentifiers(kg.Train)); err != nil {
		return err
	}
	if err := c.CheckBackend(m.Backend); err != nil {
		return err
	}
	triples, err := g.Triples(kg.Train)
	if err == nil && len(triples) == 0 {
		err = fmt.Errorf("%s has no training triples", text.DataSet(g.Name))
	}
	return cmp.Or(err, c.CheckPairs(len(triples)))
}

// check returns an error if the machine cannot run anything.
func (m Machine) check() error {
	if m.Backend == nil || m.Threads < 1 {
		return errors.New("train: Machine needs a backend and at least one thread")
	}
	return nil
}

// newUnfilled returns a trainer without a model, for a model with the given configuration.
func newUnfilled(
	ctx context.Context, c recipe.Recipe, g *kg.Graph, m Machine, config model.Config,
) (*Trainer, error) {
	bare, err := model.Unfilled(config)
	if err != nil {
		return nil, err
	}
	if err := checkLayout(bare); err != nil {
		return nil, err
	}
	known, err := kg.NewIndex(ctx, g)
	if err != nil {
		return nil, err
	}
	triples, err := distinct(ctx, g.Splits[kg.Train], known)
	if err != nil {
		return nil, err
	}
	t := &Trainer{config: c, machine: m, graph: g, triples: triples, known: known}
	if c.Negatives == recipe.KvsAll {
		if t.queries, err = newQueryParts(ctx, t.triples, known, c.MaxAnswers, c.Seed); err != nil {
			return nil, err
		}
	}
	t.preparer, err = newPreparer(ctx, &t.config, g, t.triples, known, model.DependenceOf(bare), m.Threads)
	return t, err
}

// fill sets the model that t trains.
func (t *Trainer) fill(start model.Trainable) (err error) {
	c, m, tables := &t.config, t.machine, tablesOf(start)
	t.model = start
	t.stepper = newStepper(c, linalg.New(m.Backend), m.Threads, t.known, start, tables)
	t.optimiser = newOptimiser(c, m, tables)
	if c.EMA > 0 {
		copies := make([][]float32, len(start.Tensors()))
		for i, tensor := range start.Tensors() {
			copies[i] = make([]float32, len(tensor))
		}
		t.average, err = model.New(start.Config(), copies)
	}
	return err
}

// distinct returns the distinct training triples, in the order of their first occurrences. It copies them
// only if there are repeats.
func distinct(ctx context.Context, triples []kg.Triple, known *kg.Index) ([]kg.Triple, error) {
	n := known.Distinct(kg.Train)
	if n == len(triples) {
		return triples, nil
	}
	list := make([]kg.Triple, 0, n)
	seen := make(map[kg.Triple]bool, n)
	for i, t := range triples {
		if i%(1<<16) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !seen[t] {
			seen[t] = true
			list = append(list, t)
		}
	}
	return list, nil
}

// items returns the number of items in an epoch: triples or, with kvsall, parts of queries.
func (t *Trainer) items() int {
	if t.queries != nil {
		return len(t.queries.items)
	}
	return len(t.triples)
}

// StepsPerEpoch returns the number of steps in an epoch.
func (t *Trainer) StepsPerEpoch() int { return (t.items() + t.config.Batch - 1) / t.config.Batch }

// prepare returns the workload of a step on the items with the given numbers.
func (t *Trainer) prepare(ctx context.Context, items []int32, step int) (*workload, error) {
	if t.queries != nil {
		t.stepParts = t.stepParts[:0]
		for _, i := range items {
			t.stepParts = append(t.stepParts, t.queries.items[i])
		}
		return t.preparer.prepareKvsAll(ctx, t.queries, t.stepParts, t.epoch, step)
	}
	return t.preparer.prepare(ctx, items, t.epoch, step)
}

// Model returns the model that is validated and saved: the EMA if the recipe uses one and an epoch is
// done, and the trained model otherwise. The next epoch changes its parameters.
func (t *Trainer) Model() model.Model {
	if t.average != nil && t.epoch > 0 {
		return t.average
	}
	return t.model
}

// Done returns the number of epochs done.
func (t *Trainer) Done() int { return t.epoch }

// Triples returns the number of distinct training triples.
func (t *Trainer) Triples() int { return len(t.triples) }

// Epoch makes one pass over the training triples. The error is a DivergedError if the loss or a
// parameter became NaN or infinite. After an error, such as a cancelled ctx, the parameters belong to no
// epoch, so later calls of Epoch and Validate return an error that wraps the first one.
func (t *Trainer) Epoch(ctx context.Context) (e EpochResult, err error) {
	if err := t.usable(); err != nil {
		return EpochResult{}, err
	}
	defer func() { t.failed = err }()
	start := time.Now()
	t.shuffle()
	loss, err := t.steps(ctx, start)
	if err != nil {
		return EpochResult{}, err
	}
	if err := t.optimiser.flush(ctx); err != nil {
		return EpochResult{}, err
	}
	if err := t.checkFinite(ctx); err != nil {
		return EpochResult{}, err
	}
	if err := t.updateAverage(ctx); err != nil {
		return EpochResult{}, err
	}
	t.epoch++
	seconds := time.Since(start).Seconds()
	return EpochResult{
		Epoch: t.epoch, Loss: loss, LearningRate: t.optimiser.rate,
		Seconds: seconds, TriplesPerSecond: perSecond(len(t.triples), seconds),
	}, nil
}

// usable returns an error after a failed epoch.
func (t *Trainer) usable() error {
	if t.failed == nil {
		return nil
	}
	return fmt.Errorf("train: an epoch failed, so the trainer cannot continue: make a new one (%w)", t.failed)
}

// perSecond returns a rate, or 0 if a coarse clock measured no time. JSON has no infinite numbers.
func perSecond(n int, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds
}

// shuffle draws the items of the epoch and their order.
func (t *Trainer) shuffle() {
	if t.queries != nil {
		t.queries.shuffle(t.epoch)
	}
	t.order = resize(t.order, t.items())
	for i := range t.order {
		t.order[i] = int32(i)
	}
	pcg := rand.NewPCG(0, 0)
	stream.Seed(pcg, t.config.Seed, useShuffle, t.epoch, 0, 0)
	rand.New(pcg).Shuffle(len(t.order), func(i, j int) { t.order[i], t.order[j] = t.order[j], t.order[i] })
}

// steps runs the steps of the epoch that began at start and returns their mean loss.
func (t *Trainer) steps(ctx context.Context, start time.Time) (Loss, error) {
	var sum Loss // over the items
	for step := range t.StepsPerEpoch() {
		first := step * t.config.Batch
		last := min(first+t.config.Batch, len(t.order))
		loss, err := t.step(ctx, t.order[first:last], step)
		if err != nil {
			return Loss{}, err
		}
		sum.add(loss, float64(last-first))
		if t.machine.Progress != nil {
			done := int(int64(len(t.triples)) * int64(last) / int64(len(t.order)))
			t.machine.Progress(Progress{
				Epoch: t.epoch + 1, Epochs: t.config.Epochs, Done: done, Total: len(t.triples),
				Loss: sum.over(float64(last)), Elapsed: time.Since(start),
			})
		}
	}
	return sum.over(float64(len(t.order))), nil
}

// step runs one step on the items with the given numbers.
func (t *Trainer) step(ctx context.Context, items []int32, step int) (Loss, error) {
	w, err := t.prepare(ctx, items, step)
	if err != nil {
		return Loss{}, err
	}
	used := t.stepper.begin(w)
	t.optimiser.begin(t.StepsPerEpoch())
	if err := t.optimiser.catchUp(ctx, used); err != nil {
		return Loss{}, err
	}
	var sink gradientSink = t.optimiser
	if !t.optimiser.fused() {
		t.kept.begin(used, t.stepper.tables)
		sink = &t.kept
	}
	loss, err := t.stepper.compute(ctx, w, sink)
	switch {
	case err != nil:
		return loss, err
	case !loss.finite():
		return loss, t.diverged(step, loss)
	case !t.optimiser.fused():
		err = t.optimiser.applyClipped(ctx, &t.kept)
	}
	t.stepper.settle()
	return loss, err
}

// partSize is about the number of parameters that a goroutine processes at a time after an epoch.
const partSize = 1 << 16

// inParts calls work for ranges that cover 0 ≤ i < n. Each range holds whole rows of the given width.
func (t *Trainer) inParts(ctx context.Context, n, width int, work func(worker, first, last int)) error {
	size := max(1, partSize/width) * width
	return kernel.Parallel(ctx, t.machine.Threads, (n+size-1)/size, func(worker, part int) {
		work(worker, part*size, min((part+1)*size, n))
	})
}

// checkFinite returns an error for the first parameter that is NaN or infinite.
func (t *Trainer) checkFinite(ctx context.Context) error {
	found := make([]int, t.machine.Threads) // the first one that each goroutine finds
	for i, tensor := range t.model.Tensors() {
		for worker := range found {
			found[worker] = len(tensor)
		}
		err := t.inParts(ctx, len(tensor), 1, func(worker, first, last int) {
			for k, v := range tensor[first:last] {
				if v-v != 0 {
					found[worker] = min(found[worker], first+k)
					break
				}
			}
		})
		if err != nil {
			return err
		}
		if k := slices.Min(found); k < len(tensor) {
			table := &t.optimiser.tables[i]
			return DivergedError(fmt.Sprintf("training diverged in epoch %d: tensor %q, row %d, contains %v; "+
				"lower learning_rate, or set clip", t.epoch+1, table.name, k/table.width, tensor[k]))
		}
	}
	return nil
}

// finite reports whether the loss is neither NaN nor infinite.
func (l Loss) finite() bool { return l.Total-l.Total == 0 }

func (l *Loss) add(x Loss, weight float64) {
	l.Total += weight * x.Total
	l.Fit += weight * x.Fit
	l.Z += weight * x.Z
	l.Relations += weight * x.Relations
	l.Regulariser += weight * x.Regulariser
}

func (l Loss) over(n float64) Loss {
	return Loss{l.Total / n, l.Fit / n, l.Z / n, l.Relations / n, l.Regulariser / n}
}

// updateAverage adds the parameters after the epoch to the EMA. During the first 1/(1 − decay) epochs, the
// EMA is the plain mean over the epochs so far.
func (t *Trainer) updateAverage(ctx context.Context) error {
	if t.average == nil {
		return nil
	}
	decay := min(t.config.EMA, 1-1/float64(t.epoch+1))
	keep, take := float32(decay), float32(1-decay)
	parameters := parametersOf(t.average)
	for i, values := range t.model.Tensors() {
		p, averages, width := &parameters[i], t.average.Tensors()[i], 1
		if p.Constrain != nil {
			width = p.Width()
		}
		err := t.inParts(ctx, len(values), width, func(_, first, last int) {
			average := averages[first:last]
			for k, v := range values[first:last] {
				average[k] = float32(keep*average[k]) + float32(take*v) // the conversions prevent a fused multiply-add
			}
			p.ConstrainRows(average)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// diverged returns the error for a loss that is NaN or infinite. The error names the largest
// parameter of each tensor.
func (t *Trainer) diverged(step int, l Loss) error {
	var largest []string
	for i, tensor := range t.model.Tensors() {
		var most float32
		row := 0
		for k, v := range tensor {
			if a := max(v, -v); most == most && !(a <= most) { // the first NaN is the largest
				most, row = a, k/t.optimiser.tables[i].width
			}
		}
		largest = append(largest, fmt.Sprintf("%.3g in %s, row %d", most, t.optimiser.tables[i].name, row))
	}
	return DivergedError(fmt.Sprintf("training diverged in epoch %d, step %d of %d: the loss is %v "+
		"(fit %.4g, Z-samples %.4g, relations %.4g, regulariser %.4g); the largest parameters are %s; lower "+
		"learning_rate, or set clip", t.epoch+1, step+1, t.StepsPerEpoch(), l.Total, l.Fit, l.Z, l.Relations,
		l.Regulariser, strings.Join(largest, ", ")))
}

// DivergedError means that the loss or a parameter became NaN or infinite. The cause is the recipe,
// for example a high learning rate.
type DivergedError string

func (d DivergedError) Error() string { return string(d) }

// Validate ranks the validation split and returns its measures for each side and filter.
func (t *Trainer) Validate(ctx context.Context) (Scores, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	triples, err := t.graph.Triples(kg.Valid)
	if err != nil {
		return nil, err
	}
	options := rank.Options{Backend: t.machine.Backend, Threads: t.machine.Threads}
	r, err := rank.Run(ctx, t.Model(), t.known, triples, options)
	if err != nil {
		return nil, err
	}
	return scoresOf(r.Ranks), nil
}
