package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/perf/benchfmt"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/synth"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"

	_ "embed"
)

//go:embed torch_step.py
var torchStepProgram []byte

// The timed step trains MQuinE with Adam and a softmax over the target and the negatives that the
// queries of a side share. All other options of mquine train are off.
const (
	stepBatch     = 1024
	stepNegatives = 1024
	stepsPerRound = 8
)

func stepConfig(dim, batch, negatives int) recipe.Recipe {
	c := recipe.Default()
	c.Dim, c.Batch = dim, batch
	c.Negatives, c.NegativeCount, c.Filter = recipe.SharedNegatives, negatives, false
	c.Dropout, c.ZSamples = 0, 0
	return c
}

// stepTime is the wall-clock time and the processor time of a step, in seconds.
type stepTime struct{ wall, cpu float64 }

// stepJob is a training step that mquine and a rival take.
type stepJob struct {
	name   string // the benchmark's name
	step   string // what a step contains
	rival  string
	recipe recipe.Recipe
	start  func(ctx context.Context, g *kg.Graph, tensors [][]float32) (*torch, error)
	// request asks the rival for stepsPerRound steps.
	request any
	about   func(*torch) (string, error)
}

// mquineSteps returns the job that trains MQuinE in mquine and in torch_step.py, after a check of the
// rival.
func (o *options) mquineSteps(ctx context.Context, m train.Machine) (*stepJob, error) {
	if err := o.checkStep(ctx, m); err != nil {
		return nil, err
	}
	fmt.Fprintln(o.log, "torch: loss and gradients equal mquine's on a small graph, within the rounding of float32")
	c := stepConfig(o.dim, stepBatch, stepNegatives)
	c.Products = recipe.Products(o.products)
	return &stepJob{
		name:   fmt.Sprintf("dim=%d/products=%s", o.dim, o.products),
		step:   fmt.Sprintf("%d positives from both sides, %d shared negatives per side", stepBatch, stepNegatives),
		rival:  "torch",
		recipe: c,
		start: func(ctx context.Context, g *kg.Graph, tensors [][]float32) (*torch, error) {
			return o.newTorchStep(ctx, g, tensors, o.dim)
		},
		request: map[string]int{"batch": stepBatch, "negatives": stepNegatives, "steps": stepsPerRound},
		about: func(t *torch) (string, error) {
			var how struct{ Form, Adam string }
			err := t.ask(map[string]bool{"about": true}, &how)
			return fmt.Sprintf("torch %s, %s features, %s Adam", t.started.Torch, how.Form, how.Adam), err
		},
	}, nil
}

// measureSteps times training steps in mquine and in a rival, alternating between the two.
func (o *options) measureSteps(ctx context.Context, out io.Writer) error {
	backend, err := kernel.New()
	if err != nil {
		return err
	}
	machine := train.Machine{Backend: backend, Threads: o.threads}
	prepare := o.mquineSteps
	if o.code != "" {
		prepare = o.authorsSteps
	}
	j, err := prepare(ctx, machine)
	if err != nil {
		return err
	}
	g, err := kg.Open(ctx, o.data)
	if err != nil {
		return err
	}
	start, err := train.NewTrainer(ctx, j.recipe, g, machine)
	if err != nil {
		return err
	}
	t, err := j.start(ctx, g, start.Model().Tensors())
	if err != nil {
		return err
	}
	defer t.close()
	var warm any
	if err := t.ask(j.request, &warm); err != nil {
		return err
	}
	var own, theirs []stepTime
	for round := range o.rounds {
		a, err := ownSteps(ctx, j.recipe, g, machine)
		if err != nil {
			return err
		}
		var b struct{ Wall, CPU float64 }
		if err := t.ask(j.request, &b); err != nil {
			return err
		}
		own, theirs = append(own, a), append(theirs, stepTime{b.Wall / stepsPerRound, b.CPU / stepsPerRound})
		fmt.Fprintf(o.log, "round %d of %d\n", round+1, o.rounds)
	}
	about, err := j.about(t)
	if err != nil {
		return err
	}
	j.name = fmt.Sprintf("TrainStep/data=%s/%s", g.Name, j.name)
	return j.write(out, machine, about, own, theirs)
}

// newTorchStep starts torch_step.py with a graph's training triples and the initial parameters.
func (o *options) newTorchStep(ctx context.Context, g *kg.Graph, tensors [][]float32, dim int) (*torch, error) {
	shape := map[string]any{"entities": g.Entities.Len(), "relations": g.Relations.Len(), "dim": dim}
	return o.startSteps(ctx, "torch_step.py", torchStepProgram, g, tensors, shape)
}

// startSteps starts a program that trains, with a graph's training triples, the initial parameters,
// and the shape of the model and of a step.
func (o *options) startSteps(
	ctx context.Context, name string, program []byte, g *kg.Graph, tensors [][]float32, shape map[string]any,
	args ...string,
) (*torch, error) {
	return startTorch(ctx, o.python, name, program, func(folder string) ([]string, error) {
		triples, err := g.Triples(kg.Train)
		if err != nil {
			return nil, err
		}
		var ids []int32
		for _, t := range triples {
			ids = append(ids, t.Head, t.Relation, t.Tail)
		}
		shapeFile, err := json.Marshal(shape)
		if err != nil {
			return nil, err
		}
		var parameters, numbers bytes.Buffer
		return append(append([]string{folder}, args...), "--threads", strconv.Itoa(o.threads)), errors.Join(
			binary.Write(&parameters, binary.LittleEndian, slices.Concat(tensors...)),
			binary.Write(&numbers, binary.LittleEndian, ids),
			os.WriteFile(filepath.Join(folder, "shape.json"), shapeFile, 0o666),
			os.WriteFile(filepath.Join(folder, "parameters.f32"), parameters.Bytes(), 0o666),
			os.WriteFile(filepath.Join(folder, "triples.i32"), numbers.Bytes(), 0o666))
	})
}

// checkStep compares torch_step.py's loss and gradients with mquine's, for one step of gradient
// descent at rate 1 on a small graph. The batch contains all triples, and the negatives are all
// entities.
func (o *options) checkStep(ctx context.Context, m train.Machine) error {
	const dim = 7
	g, _, err := synth.Families(ctx, synth.Config{Entities: 60, Seed: 1})
	if err != nil {
		return err
	}
	triples, err := g.Triples(kg.Train)
	if err != nil {
		return err
	}
	c := stepConfig(dim, len(triples), g.Entities.Len())
	if o.products == string(recipe.SplitBF16) { // the others are float32 or too rough for the bounds below
		c.Products = recipe.SplitBF16
	}
	c.Optimiser, c.LearningRate, c.InitCross, c.InitStd = "sgd", 1, "identity", 0.3
	trainer, err := train.NewTrainer(ctx, c, g, m)
	if err != nil {
		return err
	}
	before := slices.Concat(trainer.Model().Tensors()...)
	t, err := o.newTorchStep(ctx, g, trainer.Model().Tensors(), dim)
	if err != nil {
		return err
	}
	defer t.close()
	epoch, err := trainer.Epoch(ctx)
	if err != nil {
		return err
	}
	after := slices.Concat(trainer.Model().Tensors()...)
	var answer struct{ Losses map[string]float64 }
	if err := t.ask(map[string]bool{"check": true}, &answer); err != nil {
		return err
	}
	for form, loss := range answer.Losses {
		if math.Abs(loss-epoch.Loss.Total) > 1e-5*math.Abs(loss) {
			return fmt.Errorf("torch_step.py, %s: the loss is %v instead of %v", form, loss, epoch.Loss.Total)
		}
		raw, err := os.ReadFile(filepath.Join(t.folder, "after-"+form+".f32"))
		if err != nil {
			return err
		}
		theirs := make([]float32, len(after))
		if n, err := binary.Decode(raw, binary.LittleEndian, theirs); err != nil || n != len(raw) {
			return fmt.Errorf("torch_step.py, %s: %d bytes of parameters instead of %d", form, len(raw), 4*len(after))
		}
		var most float64
		for i := range after {
			most = max(most, math.Abs(float64(after[i]-before[i])))
		}
		for i := range after {
			if d := math.Abs(float64(after[i] - theirs[i])); !(d <= 2e-5*most+1e-6) {
				return fmt.Errorf("torch_step.py, %s: the derivative with respect to parameter %d is %v instead of %v",
					form, i, before[i]-theirs[i], before[i]-after[i])
			}
		}
	}
	return nil
}

// ownSteps times mquine's steps, except the first, which is a warm-up.
func ownSteps(ctx context.Context, c recipe.Recipe, g *kg.Graph, m train.Machine) (stepTime, error) {
	some, stop := context.WithCancel(ctx)
	defer stop()
	var took stepTime
	done, wall, cpu := 0, time.Time{}, 0.0
	m.Progress = func(train.Progress) {
		switch done++; done {
		case 1:
			wall, cpu = time.Now(), processSeconds()
		case 1 + stepsPerRound:
			took = stepTime{
				wall: time.Since(wall).Seconds() / stepsPerRound,
				cpu:  (processSeconds() - cpu) / stepsPerRound,
			}
			stop()
		}
	}
	t, err := train.NewTrainer(ctx, c, g, m)
	if err != nil {
		return took, err
	}
	runtime.GC() // collects the garbage of the preparation
	if _, err := t.Epoch(some); err != nil && !errors.Is(err, context.Canceled) {
		return took, err
	}
	if took.wall == 0 {
		least := (1 + stepsPerRound) * c.Batch
		short := fmt.Errorf("%s has fewer than %d training triples: choose a larger data set", g.Name, least)
		return took, errors.Join(ctx.Err(), short)
	}
	return took, nil
}

// processSeconds returns the processor time of this process.
func processSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// write writes the ratios as comments, and the result of every round.
func (j *stepJob) write(out io.Writer, m train.Machine, about string, own, theirs []stepTime) error {
	r := newResults(m.Backend, m.Threads)
	column := func(times []stepTime, of func(stepTime) float64) (x []float64) {
		for _, t := range times {
			x = append(x, of(t))
		}
		return x
	}
	fmt.Fprintf(r, "# %s: %s; %s, %s, %s; medians of %s of %d steps\n", j.name, j.step, cpu(), m.Backend.Tier,
		text.Plural(m.Threads, "thread"), text.Plural(len(own), "round"), stepsPerRound)
	for _, part := range []struct {
		what string
		of   func(stepTime) float64
	}{
		{"processor time", func(t stepTime) float64 { return t.cpu }},
		{"wall-clock time", func(t stepTime) float64 { return t.wall }},
	} {
		x, y := column(own, part.of), column(theirs, part.of)
		ratios := make([]float64, len(x))
		for i := range x {
			ratios[i] = y[i] / x[i]
		}
		fmt.Fprintf(r, "# %s of a step: mquine %.0f ms, %s %.0f ms: slowdown %.2f, %s\n",
			part.what, 1e3*median(x), j.rival, 1e3*median(y), median(ratios), interval(ratios))
	}
	r.describeRun()
	r.set("torch", about)
	for i := range own {
		for _, x := range []struct {
			rival string
			stepTime
		}{{"mquine", own[i]}, {j.rival, theirs[i]}} {
			if err := r.add(j.name, x.rival, x.wall, benchfmt.Value{Value: x.cpu, Unit: "cpu-sec/op"}); err != nil {
				return err
			}
		}
	}
	_, err := out.Write(r.Bytes())
	return err
}
