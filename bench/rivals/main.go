// Command rivals times the same evaluation in mquine and in what else could do it: gonum's BLAS, a
// plain Go loop, OpenBLAS, oneDNN and PyTorch. It is a module of its own, so that what only the rivals
// need stays out of mquine's.
//
//	go run . --data fb15k-237 --model mquine --dim 38
//	go run . --all
//	go run . --steps --data fb15k-237 --dim 38
//
// Each rival's ranks are first compared with mquine's, which are exact: a rank may differ only as far
// as float32 rounding explains it. Then all are timed in alternation.
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
			err = errors.New("interrupted: the rows that are finished are kept")
		}
		fmt.Fprintf(os.Stderr, "rivals: %v\n", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	row
	checkpoint string
	all, steps bool
	products   string // of mquine's steps
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
		Use:   "rivals (--data NAME --model MODEL --dim D | --data NAME --checkpoint DIR | --all | --steps --data NAME --dim D)",
		Short: "Time the same evaluation in mquine and in its rivals",
		Long: `Time the same evaluation, both sides and three filters of a test split, in mquine and in its rivals.

  gonum         C = Q·Eᵀ by gonum's BLAS, block by block, then a counting pass over C
  openblas      the same by Debian's libopenblas0, onednn by libdnnl2
  plain         a plain Go loop over candidates
  torch         PyTorch, every query on its own; torch-unique scores repeated queries once, as mquine
                and the rivals above do

Products are for models that compare by a dot product. A rival whose library is missing is left out
and says what to install. Candidate features are ready before the clock starts, for mquine as well;
queries are made under the clock.

A rival that needs longer than --budget for all queries is timed on evenly spaced blocks of them and
extrapolated, which the table says.

With --steps it is steps of training MQuinE, in mquine and in PyTorch, whose loss and gradients are
compared with mquine's first.

The rows of --all, once finished, are kept under --work, and are not measured again for the same
commit.`,
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
	f.StringVar(&o.data, "data", "", "data set: its `name` or folder, or "+zipfName+" (made if need be)")
	f.StringVar(&o.model, "model", "", "`model` of a clustered checkpoint, made if need be")
	f.IntVar(&o.dim, "dim", 0, "its `dimension`")
	f.StringVar(&o.checkpoint, "checkpoint", "", "`folder` of a checkpoint of your own")
	f.BoolVar(&o.all, "all", false, "all rows of the comparison")
	f.BoolVar(&o.steps, "steps", false, "training steps of MQuinE in place of an evaluation: --data and --dim")
	f.StringVar(&o.products, "products", "float32", "`arithmetic` of the large products of mquine's steps: float32, or bf16x2 (AMX)")
	f.StringSliceVar(&o.rivals, "rivals", o.rivals, "rivals to time")
	f.IntVar(&o.threads, "threads", o.threads, "`number` of threads")
	f.IntVar(&o.rounds, "rounds", o.rounds, "`number` of rounds; an interval needs 6")
	f.DurationVar(&o.budget, "budget", o.budget, "`time` of one rival in one round")
	f.IntVar(&o.limit, "limit", 0, "`number` of queries for every rival but mquine (default: what the budget allows)")
	f.StringVar(&o.work, "work", "", "`folder` for data, checkpoints and results (default: one in your cache)")
	f.StringVar(&o.python, "python", "", "`interpreter` that has torch (default: python3 or /usr/bin/python3)")
	return cmd
}

func (o *options) check() error {
	one := o.data != "" && (o.checkpoint != "") != (o.model != "" && o.dim > 0)
	switch {
	case o.steps && (o.data == "" || o.dim < 1 || o.all || o.checkpoint != "" || o.model != "" && o.model != "mquine"):
		return errors.New("--steps trains MQuinE: give it --data and --dim alone")
	case o.products != "float32" && (o.products != "bf16x2" || !o.steps):
		return errors.New("--products is float32 or, with --steps, bf16x2")
	case o.steps:
	case o.all == one || o.all && (o.row != row{} || o.checkpoint != ""):
		return errors.New("give --data with --model and --dim, --data with --checkpoint, or --all")
	case o.model != "" && !slices.Contains(model.Names(), o.model):
		return fmt.Errorf("--model %s: choose from %s", o.model, strings.Join(model.Names(), ", "))
	case o.threads < 1 || o.rounds < 1 || o.limit < 0 || o.budget <= 0:
		return errors.New("--threads, --rounds and --budget must be positive, and --limit not negative")
	}
	for _, name := range o.rivals {
		if !slices.Contains(rivalNames, name) {
			return fmt.Errorf("--rivals %s: choose from %s", name, strings.Join(rivalNames, ", "))
		}
	}
	if o.work == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("there is no cache folder (%w): give --work", err)
		}
		o.work = filepath.Join(cache, "mquine", "rivals")
	}
	return os.MkdirAll(o.work, 0o777)
}

// row is one job of the comparison.
type row struct {
	data, model string
	dim         int
}

func (r row) String() string { return fmt.Sprintf("%s %s %d", r.data, r.model, r.dim) }

// rows are those of --all.
var rows = func() (list []row) {
	for _, d := range []struct {
		data   string
		matrix int
	}{{"fb15k-237", 38}, {"wn18rr", 35}, {zipfName, 18}} {
		list = append(list, row{d.data, "mquine", d.matrix}, row{d.data, "complex", 500}, row{d.data, "transe-l1", 1000}, row{d.data, "rotate", 500})
	}
	return list
}()

func (o *options) run(ctx context.Context) error {
	// OpenBLAS, oneDNN and gonum use as many threads as they are told; this is for the last.
	runtime.GOMAXPROCS(o.threads)
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
		fmt.Fprintf(o.log, "row %d of %d (%v), %s since the start\n", i+1, len(rows), r, time.Since(began).Round(time.Second))
		old, err := os.ReadFile(path)
		if err == nil && !strings.HasSuffix(commit(), "-dirty") && strings.Contains(string(old), "commit: "+commit()+"\n") {
			fmt.Fprintf(o.log, "measured before: remove %s to measure it again\n", path)
			os.Stdout.Write(old)
			continue
		}
		var b strings.Builder
		err = o.measure(ctx, io.MultiWriter(os.Stdout, &b))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // the other rows can still be measured
			fmt.Fprintf(o.log, "%v: %v\n", r, err)
			failed = append(failed, r.String())
			continue
		}
		if err := replaceFile(path, b.String()); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.log, "%d rows in %s; the results, in the Go benchmark format, are in %s\n", len(rows)-len(failed), time.Since(began).Round(time.Second), results)
	if len(failed) > 0 {
		return fmt.Errorf("not measured: %s (the reasons are above)", strings.Join(failed, "; "))
	}
	return nil
}
