package train

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/linalg"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train/internal/stream"
	"github.com/mquine/mquine/train/recipe"
)

// Machine is what a training runs on. Neither the number of threads nor Progress changes what comes out.
type Machine struct {
	Backend *kernel.Backend
	Threads int
	// Progress, if not nil, is called after every step.
	Progress func(Progress)
	// Reading, if not nil, is told how far the reading of the data set has come.
	Reading func(kg.OpenProgress)
}

// Progress is how far an epoch has come.
type Progress struct {
	Epoch, Epochs int
	// Done of Total training triples of the epoch are used, in Elapsed.
	Done, Total int
	Loss        Loss
	Elapsed     time.Duration
}

// Loss is the mean loss of a positive, as the mean over its two queries, or that of a query with kvsall,
// and what it is made of.
type Loss struct {
	Total       float64 `json:"total"`
	Fit         float64 `json:"fit"` // of the answers and the negatives
	Z           float64 `json:"z"`   // of the Z-samples
	Regulariser float64 `json:"regulariser"`
}

// Epoch is what is known of an epoch: a line of log.jsonl.
type Epoch struct {
	Epoch            int     `json:"epoch"`
	Loss             Loss    `json:"loss"`
	LearningRate     float64 `json:"learning_rate"`
	Seconds          float64 `json:"seconds"`
	TriplesPerSecond float64 `json:"triples_per_second"`
	Valid            Scores  `json:"valid,omitempty"`
	ValidSeconds     float64 `json:"valid_seconds,omitempty"`
	// ProcessorSeconds are those of all threads, validation included; 0 where the system does not tell.
	ProcessorSeconds float64 `json:"processor_seconds,omitempty"`
	Best             bool    `json:"best,omitempty"`
}

// Trainer trains one model. It belongs to one goroutine.
type Trainer struct {
	config  recipe.Recipe
	machine Machine
	graph   *kg.Graph
	triples []kg.Triple // distinct training triples
	queries []kg.Query  // their distinct queries, with kvsall alone
	order   []int32     // of the triples or the queries, in the epoch
	known   *kg.Index

	positives []kg.Triple // of a step
	asked     []kg.Query

	model, average model.Model
	preparer       *preparer
	stepper        *stepper
	optimiser      *optimiser
	kept           gradients // of a step, until they are clipped
	epoch          int       // done
}

// NewTrainer prepares the training of a model on the training split of g, from the start.
func NewTrainer(ctx context.Context, c recipe.Recipe, g *kg.Graph, m Machine) (*Trainer, error) {
	t, err := newUnfilled(c, g, m)
	if err != nil {
		return nil, err
	}
	start, err := model.Begin(ctx, c.ModelConfig(g.Entities.Len(), g.Relations.Len()), c.Start(), c.Seed)
	if err != nil {
		return nil, err
	}
	return t, t.fill(start)
}

// NewTrainerFrom is NewTrainer with the parameters of start, which it changes in place, and with its
// hyper-parameters. Options of c about the parameters at the start have no effect.
func NewTrainerFrom(c recipe.Recipe, g *kg.Graph, m Machine, start model.Trainable) (*Trainer, error) {
	s := start.Config()
	if s.Model != c.Model || s.Dim != c.Dim || s.Entities != g.Entities.Len() || s.Relations != g.Relations.Len() {
		return nil, fmt.Errorf("train: a %s of d = %d, %d entities and %d relations is no start for %s, d = %d, on %s, "+
			"which has %d and %d", s.Model, s.Dim, s.Entities, s.Relations, c.Model, c.Dim, g.Name,
			g.Entities.Len(), g.Relations.Len())
	}
	t, err := newUnfilled(c, g, m)
	if err != nil {
		return nil, err
	}
	return t, t.fill(start)
}

// newUnfilled returns a trainer that has all but the model.
func newUnfilled(c recipe.Recipe, g *kg.Graph, m Machine) (*Trainer, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if m.Backend == nil || m.Threads < 1 {
		return nil, fmt.Errorf("train: Machine needs a backend and at least one thread")
	}
	if err := c.CheckBackend(m.Backend); err != nil {
		return nil, err
	}
	all, err := g.Triples(kg.Train)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("data set %s has no training triples", g.Name)
	}
	if err := CheckMemory(g, m, c); err != nil {
		return nil, err
	}
	t := &Trainer{config: c, machine: m, graph: g, known: kg.NewIndex(g)}
	seen := make(map[kg.Triple]bool, len(all))
	for _, triple := range all {
		if !seen[triple] {
			seen[triple] = true
			t.triples = append(t.triples, triple)
		}
	}
	if c.Negatives == recipe.KvsAll {
		t.queries = distinctQueries(t.triples)
	}
	t.preparer, err = newPreparer(&t.config, g, t.triples, t.known, m.Threads)
	return t, err
}

// fill gives the trainer the model to train.
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

// distinctQueries returns the queries that the triples answer, in the order of their first answers.
func distinctQueries(triples []kg.Triple) []kg.Query {
	var queries []kg.Query
	seen := map[kg.Query]bool{}
	for _, t := range triples {
		for _, side := range []kg.Side{kg.Tail, kg.Head} {
			if q, _ := t.Query(side); !seen[q] {
				seen[q] = true
				queries = append(queries, q)
			}
		}
	}
	return queries
}

// items returns the number of triples, or of queries, of an epoch.
func (t *Trainer) items() int {
	if t.queries != nil {
		return len(t.queries)
	}
	return len(t.triples)
}

// StepsPerEpoch returns the number of steps of an epoch.
func (t *Trainer) StepsPerEpoch() int { return (t.items() + t.config.Batch - 1) / t.config.Batch }

// prepare makes the workload of a step from triples or queries, which it is given by number.
func (t *Trainer) prepare(ctx context.Context, items []int32, step int) (*workload, error) {
	if t.queries != nil {
		t.asked = t.asked[:0]
		for _, i := range items {
			t.asked = append(t.asked, t.queries[i])
		}
		return t.preparer.prepareKvsAll(ctx, t.asked, t.epoch, step)
	}
	t.positives = t.positives[:0]
	for _, i := range items {
		t.positives = append(t.positives, t.triples[i])
	}
	return t.preparer.prepare(ctx, t.positives, t.epoch, step)
}

// Model returns the model as it is validated and kept: the average of the epochs where the
// configuration wants one. It changes with the next epoch.
func (t *Trainer) Model() model.Model {
	if t.average != nil {
		return t.average
	}
	return t.model
}

// Done returns the number of epochs done.
func (t *Trainer) Done() int { return t.epoch }

// Triples returns the number of distinct training triples.
func (t *Trainer) Triples() int { return len(t.triples) }

// Epoch makes one pass over the training triples. After an error the trainer is of no more use.
func (t *Trainer) Epoch(ctx context.Context) (Epoch, error) {
	start := time.Now()
	t.shuffle()
	var sum Loss // of the items
	steps := t.StepsPerEpoch()
	for step := range steps {
		first := step * t.config.Batch
		last := min(first+t.config.Batch, len(t.order))
		loss, err := t.step(ctx, t.order[first:last], step)
		if err != nil {
			return Epoch{}, err
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
	if err := t.optimiser.flush(ctx); err != nil {
		return Epoch{}, err
	}
	if err := t.checkFinite(); err != nil {
		return Epoch{}, err
	}
	t.epoch++
	t.takeAverage()
	seconds := time.Since(start).Seconds()
	return Epoch{
		Epoch: t.epoch, Loss: sum.over(float64(len(t.order))), LearningRate: t.optimiser.rate,
		Seconds: seconds, TriplesPerSecond: float64(len(t.triples)) / seconds,
	}, nil
}

// shuffle puts the items into the order of the epoch.
func (t *Trainer) shuffle() {
	t.order = resize(t.order, t.items())
	for i := range t.order {
		t.order[i] = int32(i)
	}
	pcg := rand.NewPCG(0, 0)
	stream.Seed(pcg, t.config.Seed, useShuffle, t.epoch, 0, 0)
	rand.New(pcg).Shuffle(len(t.order), func(i, j int) { t.order[i], t.order[j] = t.order[j], t.order[i] })
}

// checkFinite says that a parameter is infinite or NaN.
func (t *Trainer) checkFinite() error {
	for i, tensor := range t.model.Tensors() {
		for k, v := range tensor {
			if v-v != 0 {
				table := &t.optimiser.tables[i]
				return DivergedError(fmt.Sprintf("training blew up in epoch %d: tensor %q, row %d, has a %v; "+
					"lower learning_rate, or set clip", t.epoch+1, table.name, k/table.width, v))
			}
		}
	}
	return nil
}

// step makes a step on triples or queries, given by number.
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
	loss, err := t.stepper.run(ctx, w, sink)
	switch {
	case err != nil:
		return loss, err
	case !loss.finite():
		return loss, t.blowUp(step, loss)
	case t.optimiser.fused():
		return loss, nil
	}
	return loss, t.optimiser.applyClipped(ctx, &t.kept)
}

// finite tells whether the loss is a number.
func (l Loss) finite() bool { return l.Total-l.Total == 0 }

func (l *Loss) add(x Loss, weight float64) {
	l.Total += weight * x.Total
	l.Fit += weight * x.Fit
	l.Z += weight * x.Z
	l.Regulariser += weight * x.Regulariser
}

func (l Loss) over(n float64) Loss { return Loss{l.Total / n, l.Fit / n, l.Z / n, l.Regulariser / n} }

// takeAverage takes the parameters into the average: a plain mean at first, until its memory is as
// long as the decay says.
func (t *Trainer) takeAverage() {
	if t.average == nil {
		return
	}
	a := min(t.config.EMA, 1-1/float64(t.epoch))
	keep, take := float32(a), float32(1-a)
	for i, values := range t.model.Tensors() {
		average := t.average.Tensors()[i]
		for k, v := range values {
			average[k] = float32(keep*average[k]) + float32(take*v) // never fused
		}
	}
}

// blowUp says what went out of range.
func (t *Trainer) blowUp(step int, l Loss) error {
	var largest []string
	for i, tensor := range t.model.Tensors() {
		var most float32
		row := 0
		for k, v := range tensor {
			if a := max(v, -v); !(a <= most) {
				most, row = a, k/t.optimiser.tables[i].width
			}
		}
		largest = append(largest, fmt.Sprintf("%.3g in %s, row %d", most, t.optimiser.tables[i].name, row))
	}
	return DivergedError(fmt.Sprintf("training blew up in epoch %d, step %d of %d: the loss is %v "+
		"(fit %.4g, Z-samples %.4g, regulariser %.4g); the largest parameters are %s; lower learning_rate, or set clip",
		t.epoch+1, step+1, t.StepsPerEpoch(), l.Total, l.Fit, l.Z, l.Regulariser, strings.Join(largest, ", ")))
}

// DivergedError says that the numbers of a training went out of range, which is the options' doing.
type DivergedError string

func (d DivergedError) Error() string { return string(d) }

// Validate ranks the validation split, on both sides and under every filter.
func (t *Trainer) Validate(ctx context.Context) (Scores, error) {
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
