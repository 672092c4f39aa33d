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
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/cpuid/v2"
	"golang.org/x/perf/benchfmt"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/synth"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/recipe"

	_ "embed"
)

//go:embed torch_step.py
var torchStepProgram []byte

// The step that is timed: MQuinE, softmax over the answer and negatives that the queries of a side
// share, Adam; all options of mquine train that are not here are off.
const (
	stepBatch     = 1024
	stepNegatives = 1024
	stepsPerRound = 8
)

func stepConfig(dim, batch, negatives int) recipe.Recipe {
	c := recipe.Default()
	c.Dim, c.Batch, c.Negatives, c.NegativeCount, c.Dropout, c.ZSamples, c.Filter = dim, batch, recipe.SharedNegatives, negatives, 0, 0, false
	return c
}

// stepTime is the time of a step in seconds, on the clock and of all processors.
type stepTime struct{ wall, cpu float64 }

// measureSteps times training steps in mquine and in PyTorch in turn.
func (o *options) measureSteps(ctx context.Context, out io.Writer) error {
	backends, err := kernel.Available()
	if err != nil {
		return err
	}
	machine := train.Machine{Backend: backends[0], Threads: o.threads}
	if err := o.checkStep(ctx, machine); err != nil {
		return err
	}
	fmt.Fprintln(o.log, "torch: loss and gradients are mquine's on a small graph, but for the rounding of float32")
	g, err := kg.Open(ctx, o.data)
	if err != nil {
		return err
	}
	c := stepConfig(o.dim, stepBatch, stepNegatives)
	c.Products = recipe.Products(o.products)
	start, err := train.NewTrainer(ctx, c, g, machine)
	if err != nil {
		return err
	}
	t, err := o.newTorchStep(ctx, g, start.Model().Tensors(), o.dim)
	if err != nil {
		return err
	}
	defer t.close()
	var own, torch []stepTime
	for round := range o.rounds {
		a, err := ownSteps(ctx, c, g, machine)
		if err != nil {
			return err
		}
		var b struct{ Wall, CPU float64 }
		if err := t.ask(map[string]int{"batch": stepBatch, "negatives": stepNegatives, "steps": stepsPerRound}, &b); err != nil {
			return err
		}
		own, torch = append(own, a), append(torch, stepTime{b.Wall / stepsPerRound, b.CPU / stepsPerRound})
		fmt.Fprintf(o.log, "round %d of %d\n", round+1, o.rounds)
	}
	var how struct {
		Form, Adam string
		Tried      map[string]float64
	}
	if err := t.ask(map[string]bool{"about": true}, &how); err != nil {
		return err
	}
	about := fmt.Sprintf("torch %s, %s features, %s Adam", t.started.Torch, how.Form, how.Adam)
	return writeSteps(out, fmt.Sprintf("TrainStep/data=%s/dim=%d/products=%s", g.Name, o.dim, o.products), machine, about, own, torch)
}

// newTorchStep starts torch_step.py with a graph's training triples and parameters.
func (o *options) newTorchStep(ctx context.Context, g *kg.Graph, tensors [][]float32, dim int) (*torch, error) {
	return startTorch(ctx, o.python, "torch_step.py", torchStepProgram, func(folder string) ([]string, error) {
		triples, err := g.Triples(kg.Train)
		if err != nil {
			return nil, err
		}
		var ids []int32
		for _, t := range triples {
			ids = append(ids, t.Head, t.Relation, t.Tail)
		}
		shape, err := json.Marshal(map[string]int{"entities": g.Entities.Len(), "relations": g.Relations.Len(), "dim": dim})
		if err != nil {
			return nil, err
		}
		var parameters, numbers bytes.Buffer
		return []string{folder, "--threads", strconv.Itoa(o.threads)}, errors.Join(
			binary.Write(&parameters, binary.LittleEndian, slices.Concat(tensors...)),
			binary.Write(&numbers, binary.LittleEndian, ids),
			os.WriteFile(filepath.Join(folder, "shape.json"), shape, 0o666),
			os.WriteFile(filepath.Join(folder, "parameters.f32"), parameters.Bytes(), 0o666),
			os.WriteFile(filepath.Join(folder, "triples.i32"), numbers.Bytes(), 0o666))
	})
}

// checkStep compares torch_step.py's loss and gradients with mquine's: those of a step of gradient
// descent at rate 1 that has all triples of a small graph as its batch and all entities as negatives.
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
	c.Products = recipe.Products(o.products)
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
				return fmt.Errorf("torch_step.py, %s: the derivative by parameter %d is %v instead of %v", form, i, before[i]-theirs[i], before[i]-after[i])
			}
		}
	}
	return nil
}

// ownSteps times mquine's steps, but for the first of a trainer.
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
			took = stepTime{time.Since(wall).Seconds() / stepsPerRound, (processSeconds() - cpu) / stepsPerRound}
			stop()
		}
	}
	t, err := train.NewTrainer(ctx, c, g, m)
	if err != nil {
		return took, err
	}
	runtime.GC() // what preparing has left
	if _, err := t.Epoch(some); err != nil && !errors.Is(err, context.Canceled) {
		return took, err
	}
	if took.wall == 0 {
		return took, errors.Join(ctx.Err(), fmt.Errorf("%s has fewer than %d training triples: take a larger one", g.Name, (1+stepsPerRound)*stepBatch))
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

// writeSteps writes the ratios for people as comments of what follows: every round in the Go benchmark
// format.
func writeSteps(out io.Writer, name string, m train.Machine, about string, own, torch []stepTime) error {
	var b bytes.Buffer
	column := func(times []stepTime, of func(stepTime) float64) (x []float64) {
		for _, t := range times {
			x = append(x, of(t))
		}
		return x
	}
	fmt.Fprintf(&b, "# %s: %d positives from both sides, %d shared negatives a side; %s, %s, %d threads; medians of %d rounds of %d steps\n",
		name, stepBatch, stepNegatives, strings.TrimSpace(cpuid.CPU.BrandName), m.Backend.Tier, m.Threads, len(own), stepsPerRound)
	for _, part := range []struct {
		what string
		of   func(stepTime) float64
	}{{"processor time", func(t stepTime) float64 { return t.cpu }}, {"time on the clock", func(t stepTime) float64 { return t.wall }}} {
		x, y := column(own, part.of), column(torch, part.of)
		ratios := make([]float64, len(x))
		for i := range x {
			ratios[i] = y[i] / x[i]
		}
		fmt.Fprintf(&b, "# %s of a step: mquine %.0f ms, torch %.0f ms: %.2f times mquine, %s\n",
			part.what, 1e3*median(x), 1e3*median(y), median(ratios), interval(ratios))
	}
	w := benchfmt.NewWriter(&b)
	var config []benchfmt.Config
	for _, kv := range [][2]string{{"goos", runtime.GOOS}, {"goarch", runtime.GOARCH}, {"pkg", "github.com/mquine/mquine/bench/rivals"}, {"cpu", strings.TrimSpace(cpuid.CPU.BrandName)},
		{"commit", commit()}, {"tier", m.Backend.Tier.String()}, {"threads", fmt.Sprint(m.Threads)}, {"torch", about}} {
		config = append(config, benchfmt.Config{Key: kv[0], Value: []byte(kv[1]), File: true})
	}
	for i := range own {
		for _, x := range []struct {
			rival string
			t     stepTime
		}{{"mquine", own[i]}, {"torch", torch[i]}} {
			err := w.Write(&benchfmt.Result{Config: config, Name: benchfmt.Name(fmt.Sprintf("%s/rival=%s-%d", name, x.rival, m.Threads)), Iters: 1, Values: []benchfmt.Value{
				{Value: x.t.wall, Unit: "sec/op", OrigValue: 1e9 * x.t.wall, OrigUnit: "ns/op"}, {Value: x.t.cpu, Unit: "cpu-sec/op"}}})
			if err != nil {
				return err
			}
		}
	}
	_, err := out.Write(b.Bytes())
	return err
}
