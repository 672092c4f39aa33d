package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mquine/mquine/internal/text"
)

// Options selects the benchmarks that Run runs.
type Options struct {
	// Match selects benchmarks by their whole name; nil selects all.
	Match *regexp.Regexp
	// Quick selects only the quick subset.
	Quick bool
	// Count is the number of results of each benchmark.
	Count int
	// Time is the minimum time that a benchmark runs for one result.
	Time time.Duration
	// Progress, if not nil, is called before each run.
	Progress func(done, total int, name string)
}

// registerFlags registers the settings of package testing as flags of package flag. The command
// does not parse these flags.
var registerFlags = sync.OnceFunc(testing.Init)

// Run runs the selected benchmarks and writes the results in the Go benchmark format. It first
// writes lines that describe the machine, and then each result as soon as it is measured. If it fails
// after a result, for example because ctx is cancelled, it ends the results with a comment that says
// that others are missing.
func Run(ctx context.Context, w io.Writer, m Machine, o Options) error {
	all, err := All()
	if err != nil {
		return err
	}
	var chosen []Benchmark
	for _, x := range all {
		if (x.Quick || !o.Quick) && (o.Match == nil || o.Match.MatchString(x.Name)) {
			chosen = append(chosen, x)
		}
	}
	if len(chosen) == 0 {
		return o.noMatch(all)
	}
	absent := map[string]int{} // the numbers of benchmarks that need data sets which are not installed
	chosen = slices.DeleteFunc(chosen, func(x Benchmark) bool {
		if x.Missing != "" {
			absent[x.Missing]++
		}
		return x.Missing != ""
	})
	names := slices.Sorted(maps.Keys(absent))
	if len(chosen) == 0 {
		return fmt.Errorf("the training split of %s is not installed: run mquine data get %[1]s", names[0])
	}
	if err := errors.Join(m.WriteBasics(w), m.WriteDetails(w)); err != nil {
		return err
	}
	for _, name := range names {
		if _, err := fmt.Fprintf(w, "# without %s: the training split of %s is not installed\n",
			text.Plural(absent[name], "benchmark"), name); err != nil {
			return err
		}
	}
	registerFlags()
	if err := flag.Set("test.benchtime", o.Time.String()); err != nil {
		return err
	}
	results := 0
	for i, x := range chosen {
		for c := range o.Count {
			if o.Progress != nil {
				o.Progress(i*o.Count+c, len(chosen)*o.Count, x.Name)
			}
			result, err := x.measure(ctx)
			if err != nil {
				err = fmt.Errorf("benchmark %s: %w", x.Name, err)
			} else {
				suffix := ""
				if n := threads(); n != 1 { // as in go test
					suffix = fmt.Sprintf("-%d", n)
				}
				results++
				_, err = fmt.Fprintf(w, "Benchmark%s%s\t%s\n", x.Name, suffix, result)
			}
			if err != nil {
				if results > 0 {
					const format = "# incomplete: the run ended at %s after %d of %d results\n"
					_, _ = fmt.Fprintf(w, format, x.Name, results, len(chosen)*o.Count)
				}
				return err
			}
		}
	}
	return nil
}

// noMatch explains why the options select no benchmark.
func (o Options) noMatch(all []Benchmark) error {
	matches := func(x Benchmark) bool { return o.Match == nil || o.Match.MatchString(x.Name) }
	if i := slices.IndexFunc(all, matches); o.Quick && i >= 0 {
		return fmt.Errorf("no benchmark of the quick subset matches %q, but others such as %s do: "+
			"run them without --quick", o.Match, all[i].Name)
	}
	return fmt.Errorf("no benchmark has a name that matches %q; mquine bench list prints the names", o.Match)
}

// measure runs a benchmark outside go test. testing.Benchmark would lose the error of b.Fatal.
func (x Benchmark) measure(ctx context.Context) (result testing.BenchmarkResult, err error) {
	if err := ctx.Err(); err != nil {
		return result, err
	}
	result = testing.Benchmark(func(b *testing.B) {
		if err = x.run(ctx, b); err != nil {
			b.FailNow()
		}
	})
	return result, errors.Join(err, ctx.Err())
}
