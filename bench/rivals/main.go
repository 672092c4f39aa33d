// Command rivals times the same evaluation in mquine and in its rivals: gonum's BLAS, a plain Go
// loop, OpenBLAS, oneDNN and PyTorch. It is a separate module, so mquine does not depend on the
// rivals' dependencies.
//
//	go run . --data fb15k-237 --model mquine --dim 38
//	go run . --data fb15k-237 --model mquine --dim 38 --trained
//	go run . --all
//	go run . --steps --data fb15k-237 --dim 38
//
// Each rival's ranks are first compared with mquine's exact ranks. They may differ only where
// float32 rounding explains the difference. Then all programs are timed in interleaved rounds.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	cmd := newCommand()
	if err := cmd.ExecuteContext(ctx); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted: finished jobs are kept")
		}
		fmt.Fprintf(os.Stderr, "rivals: %v\n", err)
		os.Exit(1)
	}
}

// options holds the values of the flags.
type options struct {
	row
	checkpoint string
	all, steps bool
	products   string // arithmetic of mquine's training steps
	code       string // checkout of authors' code
	rivals     []string
	threads    int
	rounds     int
	budget     time.Duration
	limit      int
	work       string
	python     string
	log        io.Writer
}

func newCommand() *cobra.Command {
	o := options{rivals: rivalNames, threads: runtime.GOMAXPROCS(0), rounds: 6, budget: 5 * time.Second, log: os.Stderr}
	cmd := &cobra.Command{
		Use: "rivals (--data NAME --model MODEL --dim D [--trained] | --data NAME --checkpoint DIR | " +
			"--all [--trained] [--data NAME] | --steps --data NAME --dim D [--code FOLDER])",
		Short: "Time one evaluation in mquine and in its rivals",
		Long: `Time one evaluation in mquine and in its rivals: a test split, both sides, three filters.

  gonum         C = Q·Eᵀ with gonum's BLAS, block by block, then a counting pass over C
  openblas      the same with Debian's libopenblas0
  onednn        the same with Debian's libdnnl2
  plain         a plain Go loop over candidates
  torch         PyTorch, with every query scored
  torch-unique  PyTorch, with repeated queries scored once, as in mquine and all rivals except torch

The rivals gonum, openblas and onednn support models that compare by a dot product. A rival whose
library is missing is left out, with a note on what to install. Candidate features are ready before the
clock starts, for mquine too. The time covers queries, scores, counts and filters.

A rival that needs longer than --budget for all queries is timed on evenly spaced blocks, and its time
is extrapolated. The table marks such times.

The checkpoints are clustered or, with --trained, trained for minutes with a small recipe. Both kinds are kept
in --work. An interrupted run starts again; a changed recipe trains new checkpoints.

--steps times training steps of MQuinE in mquine and in PyTorch instead. A check comes first: both must have
the same loss and gradients. With --code FOLDER, a checkout of kbc or of KnowledgeGraphEmbedding, it times steps of
ComplEx or RotatE in mquine and in that code.

--all runs four models on each data set of the comparison or, with --data, on one data set. A table of all jobs
follows. --all keeps the results of each job in --work, and does not measure a job twice for the same commit,
processor, options and installed rivals. It always measures code with changes.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		PreRunE:       func(*cobra.Command, []string) error { return o.check() },
		RunE:          func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), os.Stdout) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.data, "data", "", "`name` or folder of the data set, or "+zipfName+" (created if it is missing)")
	f.StringVar(&o.model, "model", "", "`model` of a clustered or trained checkpoint, created if it is missing")
	f.IntVar(&o.dim, "dim", 0, "`dimension` of the checkpoint")
	f.BoolVar(&o.trained, "trained", false, "use trained checkpoints instead of clustered ones")
	f.StringVar(&o.checkpoint, "checkpoint", "", "`folder` of a checkpoint to use instead")
	f.BoolVar(&o.all, "all", false, "run all jobs of the comparison")
	f.BoolVar(&o.steps, "steps", false, "time training steps instead of an evaluation")
	f.StringVar(&o.code, "code", "", "`folder` with a checkout of kbc or of KnowledgeGraphEmbedding, for --steps")
	f.StringVar(&o.products, "products", "float32",
		"`arithmetic` of the large products in mquine's steps: float32, bf16 (AVX-512 BF16), bf16-amx "+
			"or bf16x2 (AMX)")
	f.StringSliceVar(&o.rivals, "rivals", o.rivals, "rivals to time")
	f.IntVar(&o.threads, "threads", o.threads, "`number` of threads")
	f.IntVar(&o.rounds, "rounds", o.rounds, "`number` of rounds; intervals need at least 6")
	f.DurationVar(&o.budget, "budget", o.budget, "maximum `time` per rival and round")
	f.IntVar(&o.limit, "limit", 0, "`number` of queries per rival (default: as many as --budget allows)")
	f.StringVar(&o.work, "work", "", "`folder` for data, checkpoints and results (default: one in your cache)")
	f.StringVar(&o.python, "python", "", "Python `interpreter` that has torch (default: python3 or /usr/bin/python3)")
	return cmd
}

func (o *options) check() error {
	one := o.data != "" && (o.checkpoint != "") != (o.model != "" && o.dim > 0)
	all := o.checkpoint == "" && o.model == "" && o.dim == 0
	switch {
	case o.code != "" && (!o.steps || o.model != ""):
		return errors.New("--code needs --steps, and trains the model of the code: leave out --model")
	case o.steps && (o.data == "" || o.dim < 1 || o.all || o.checkpoint != "" || o.model != "" && o.model != "mquine"):
		return errors.New("--steps trains MQuinE: give --data and --dim, and no --checkpoint, --all or other --model")
	case o.trained && (o.steps || o.checkpoint != ""):
		return errors.New("--trained trains a checkpoint: leave out --steps and --checkpoint")
	case o.trained && o.data == zipfName:
		return fmt.Errorf("--trained needs a real data set: the triples of %s are random", zipfName)
	case !slices.Contains([]string{"float32", "bf16", "bf16-amx", "bf16x2"}, o.products):
		return errors.New("--products must be float32, bf16, bf16-amx or bf16x2")
	case o.products != "float32" && (!o.steps || o.code != ""):
		return errors.New("--products must be float32, except with --steps and without --code")
	case !o.steps && (o.all && !all || !o.all && !one):
		return errors.New("give --data with --model and --dim or with --checkpoint, or give --all")
	case o.model != "" && !slices.Contains(model.Names(), o.model):
		return fmt.Errorf("--model %s: choose from %s", o.model, strings.Join(model.Names(), ", "))
	case o.threads < 1 || o.rounds < 1 || o.limit < 0 || o.budget <= 0:
		return errors.New("--threads, --rounds and --budget must be positive, and --limit must not be negative")
	}
	for _, name := range o.rivals {
		if !slices.Contains(rivalNames, name) {
			return fmt.Errorf("--rivals %s: choose from %s", name, strings.Join(rivalNames, ", "))
		}
	}
	if o.work == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("there is no cache folder (%w): set --work", err)
		}
		o.work = filepath.Join(cache, "mquine", "rivals")
	}
	return os.MkdirAll(o.work, 0o777)
}

// row identifies a job of the comparison.
type row struct {
	data, model string
	dim         int
	trained     bool // not clustered
}

func (r row) String() string {
	s := fmt.Sprintf("%s %s %d", r.data, r.model, r.dim)
	if r.trained {
		s += " trained"
	}
	return s
}

// benchmark returns the name of the benchmark, without the rival.
func (r row) benchmark() string {
	name := fmt.Sprintf("Evaluate/data=%s/model=%s/dim=%d", r.data, r.model, r.dim)
	if r.trained {
		name += "/checkpoint=trained"
	}
	return name
}

// rows lists the jobs of --all, on the given data set or, if it is "", on all data sets of the
// comparison.
func rows(data string, trained bool) (list []row) {
	// The triples of zipfName are random, so training on them teaches a model nothing.
	sets := []string{"fb15k-237", "wn18rr", zipfName}
	switch {
	case data != "":
		sets = []string{data}
	case trained:
		sets = sets[:2]
	}
	matrices := map[string]int{"wn18rr": 35, zipfName: 18}
	for _, d := range sets {
		list = append(list, row{d, "mquine", cmp.Or(matrices[d], 38), trained}, row{d, "complex", 500, trained},
			row{d, "transe-l1", 1000, trained}, row{d, "rotate", 500, trained})
	}
	return list
}

func (o *options) run(ctx context.Context, out io.Writer) error {
	runtime.GOMAXPROCS(o.threads) // gonum has no other setting
	if o.steps {
		return o.measureSteps(ctx, out)
	}
	if !o.all {
		return o.measure(ctx, out)
	}
	return o.measureAll(ctx, out, rows(o.data, o.trained))
}

// measureAll measures the jobs, except those whose results are kept, and writes the results and a
// table of all jobs to out.
func (o *options) measureAll(ctx context.Context, out io.Writer, jobs []row) error {
	results := filepath.Join(o.work, "results")
	if err := os.MkdirAll(results, 0o777); err != nil {
		return err
	}
	settings, err := o.settings(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	var done bytes.Buffer
	show := io.MultiWriter(out, &done)
	var failed []string
	for i, r := range jobs {
		o.row = r
		path := filepath.Join(results, strings.ReplaceAll(filepath.Base(r.String()), " ", "-")+".txt")
		elapsed := time.Since(began).Round(time.Second)
		fmt.Fprintf(o.log, "job %d of %d (%v), %s since the start\n", i+1, len(jobs), r, elapsed)
		header := fmt.Sprintf("# job %v, %s\n", r, settings)
		old, err := os.ReadFile(path)
		if err == nil && isClean(commit()) && strings.HasPrefix(string(old), header) {
			fmt.Fprintf(o.log, "already measured at this commit: remove %s to measure again\n", path)
			show.Write(old)
			continue
		}
		b := bytes.NewBufferString(header)
		err = o.measure(ctx, b)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // the other jobs can still be measured
			fmt.Fprintf(o.log, "%v: %v\n", r, err)
			failed = append(failed, r.String())
			continue
		}
		show.Write(b.Bytes())
		if err := replaceFile(path, b.String()); err != nil {
			return err
		}
	}
	if err := writeSummary(out, &done); err != nil {
		return err
	}
	fmt.Fprintf(o.log, "%d jobs in %s; the results, in the Go benchmark format, are in %s\n",
		len(jobs)-len(failed), time.Since(began).Round(time.Second), results)
	if len(failed) > 0 {
		return fmt.Errorf("not measured: %s (the reasons are above)", strings.Join(failed, "; "))
	}
	return nil
}

// settings describes what the results of a job depend on, except for the versions of the rivals.
func (o *options) settings(ctx context.Context) (string, error) {
	backend, err := kernel.New()
	if err != nil {
		return "", err
	}
	rivals := slices.DeleteFunc(slices.Clone(o.rivals), func(name string) bool { return !o.installed(ctx, name) })
	return fmt.Sprintf("commit %s, %s, %v, features %v, threads %d, rounds %d, budget %s, limit %d, rivals %s",
		commit(), cpu(), backend.Tier, backend.Features, o.threads, o.rounds, o.budget, o.limit,
		strings.Join(rivals, ",")), ctx.Err()
}
