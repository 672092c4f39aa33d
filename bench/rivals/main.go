// Command rivals times the same evaluation in mquine and in its rivals: gonum's BLAS, a plain Go
// loop, OpenBLAS, oneDNN and PyTorch. It is a separate module, so mquine does not depend on the
// rivals' dependencies.
//
//	go run . --data fb15k-237 --model mquine --dim 38
//	go run . --all
//	go run . --steps --data fb15k-237 --dim 38
//
// Each rival's ranks are first compared with mquine's exact ranks. They may differ only where
// float32 rounding explains the difference. Then all programs are timed in interleaved rounds.
package main

import (
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
		Use: "rivals (--data NAME --model MODEL --dim D | --data NAME --checkpoint DIR | --all | " +
			"--steps --data NAME --dim D)",
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

--steps times training steps of MQuinE in mquine and in PyTorch instead. A check comes first: both must have
the same loss and gradients.

--all keeps the results of each job in --work, and does not measure a job twice for the same commit.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.data, "data", "", "`name` or folder of the data set, or "+zipfName+" (created if it is missing)")
	f.StringVar(&o.model, "model", "", "`model` of a clustered checkpoint, which is created if it is missing")
	f.IntVar(&o.dim, "dim", 0, "`dimension` of the clustered checkpoint")
	f.StringVar(&o.checkpoint, "checkpoint", "", "`folder` of a checkpoint to use instead")
	f.BoolVar(&o.all, "all", false, "run all jobs of the comparison")
	f.BoolVar(&o.steps, "steps", false, "time training steps of MQuinE instead of an evaluation")
	f.StringVar(&o.products, "products", "float32",
		"`arithmetic` of the large products in mquine's steps: float32 or bf16x2 (AMX)")
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
	switch {
	case o.steps && (o.data == "" || o.dim < 1 || o.all || o.checkpoint != "" || o.model != "" && o.model != "mquine"):
		return errors.New("--steps trains MQuinE: give --data and --dim, and no --checkpoint, --all or other --model")
	case o.products != "float32" && (o.products != "bf16x2" || !o.steps):
		return errors.New("--products must be float32 or, with --steps, bf16x2")
	case o.steps:
	case o.all == one || o.all && (o.row != row{} || o.checkpoint != ""):
		return errors.New("give --data with --model and --dim, --data with --checkpoint, or --all")
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
}

func (r row) String() string { return fmt.Sprintf("%s %s %d", r.data, r.model, r.dim) }

// rows lists the jobs of --all.
var rows = func() (list []row) {
	for _, d := range []struct {
		data   string
		matrix int
	}{{"fb15k-237", 38}, {"wn18rr", 35}, {zipfName, 18}} {
		list = append(list, row{d.data, "mquine", d.matrix}, row{d.data, "complex", 500},
			row{d.data, "transe-l1", 1000}, row{d.data, "rotate", 500})
	}
	return list
}()

func (o *options) run(ctx context.Context) error {
	runtime.GOMAXPROCS(o.threads) // gonum has no other setting
	if o.steps {
		return o.measureSteps(ctx, os.Stdout)
	}
	if !o.all {
		return o.measure(ctx, os.Stdout)
	}
	results := filepath.Join(o.work, "results")
	if err := os.MkdirAll(results, 0o777); err != nil {
		return err
	}
	began := time.Now()
	var failed []string
	for i, r := range rows {
		o.row = r
		path := filepath.Join(results, fmt.Sprintf("%s-%s-%d.txt", r.data, r.model, r.dim))
		elapsed := time.Since(began).Round(time.Second)
		fmt.Fprintf(o.log, "job %d of %d (%v), %s since the start\n", i+1, len(rows), r, elapsed)
		old, err := os.ReadFile(path)
		clean := !strings.HasSuffix(commit(), "-dirty")
		if err == nil && clean && strings.Contains(string(old), "commit: "+commit()+"\n") {
			fmt.Fprintf(o.log, "already measured at this commit: remove %s to measure again\n", path)
			os.Stdout.Write(old)
			continue
		}
		var b strings.Builder
		err = o.measure(ctx, io.MultiWriter(os.Stdout, &b))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // the other jobs can still be measured
			fmt.Fprintf(o.log, "%v: %v\n", r, err)
			failed = append(failed, r.String())
			continue
		}
		if err := replaceFile(path, b.String()); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.log, "%d jobs in %s; the results, in the Go benchmark format, are in %s\n",
		len(rows)-len(failed), time.Since(began).Round(time.Second), results)
	if len(failed) > 0 {
		return fmt.Errorf("not measured: %s (the reasons are above)", strings.Join(failed, "; "))
	}
	return nil
}
