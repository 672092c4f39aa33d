package compare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mquine/mquine/bench"
)

// Binary is a compiled test binary with the folder that it runs in.
type Binary struct{ Path, Dir string }

// PairOptions sets how Interleave runs two binaries.
type PairOptions struct {
	// Bench selects the benchmarks, as for go test -bench.
	Bench string
	// Metric, if not empty, is the unit of a later comparison. A benchmark that the binaries have in
	// common must report it.
	Metric string
	// Short selects the quick subset.
	Short bool
	// Rounds is the number of rounds. In a round, every benchmark runs Passes times in each series.
	Rounds, Passes int
	// Time is how long a benchmark runs in one round of one series, over all passes.
	Time time.Duration
	// Progress, if not nil, is called before each round of a benchmark.
	Progress func(done, total int, name string)
}

// Runs holds the results of the three series. It also holds them as text in the Go benchmark
// format, with a comment "# round: N" above the results of round N. If rounds are missing, a comment
// at the end says so.
type Runs struct {
	// Rounds is the number of rounds, all of them complete.
	Rounds                          int
	Base, Head, Control             []bench.Result
	BaseText, HeadText, ControlText bytes.Buffer
}

// Interleave runs the benchmarks that two binaries have in common, alternating between the
// binaries. The base runs as two series, which differ only by noise; the second one is the control.
// A round of a benchmark has several passes. Each pass runs every series in a new process, so the
// placement of data in memory is part of the noise. The order changes from pass to pass of a
// benchmark: in six passes, over one or more rounds, every series runs first, second and last twice.
//
// Before the rounds, Interleave runs every benchmark once. It returns an error if the binaries have
// no selected benchmark, or none with o.Metric, in common. If ctx is cancelled or a benchmark fails
// during the rounds, it returns the complete rounds along with the error.
func Interleave(ctx context.Context, base, head Binary, o PairOptions) (*Runs, error) {
	baseOnce, err := o.once(ctx, base)
	if err != nil {
		return nil, fmt.Errorf("the base: %w", err)
	}
	headOnce, err := o.once(ctx, head)
	if err != nil {
		return nil, fmt.Errorf("the head: %w", err)
	}
	list, others := names(baseOnce), names(headOnce)
	list = slices.DeleteFunc(list, func(name string) bool { return !slices.Contains(others, name) })
	if len(list) == 0 {
		return nil, fmt.Errorf("base and head have no benchmark in common that matches %q", o.Bench)
	}
	if o.Metric != "" && !bothReport(baseOnce, headOnce, o.Metric) {
		return nil, NothingInCommon(baseOnce, headOnce, o.Metric)
	}
	runs := &Runs{}
	series := []struct {
		binary  Binary
		results *[]bench.Result
		text    *bytes.Buffer
	}{
		{base, &runs.Base, &runs.BaseText},
		{head, &runs.Head, &runs.HeadText},
		{base, &runs.Control, &runs.ControlText},
	}
	benchtime := (o.Time / time.Duration(o.Passes)).String()
	orders := [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}, {2, 0, 1}, {1, 0, 2}}
	// measure measures round number `round`.
	measure := func(round int) error {
		for i, name := range list {
			if o.Progress != nil {
				o.Progress((round-1)*len(list)+i, o.Rounds*len(list), name)
			}
			for pass := range o.Passes {
				for _, which := range orders[(i+(round-1)*o.Passes+pass)%len(orders)] {
					s := series[which]
					text, results, err := s.binary.run(ctx, exactly(name), benchtime, o.Short)
					if err != nil {
						return err
					}
					for _, r := range results {
						r.Config["round"] = fmt.Sprint(round)
					}
					*s.results = append(*s.results, results...)
					s.text.Write(text)
				}
			}
		}
		return nil
	}
	for runs.Rounds < o.Rounds {
		round := runs.Rounds + 1
		var results, lengths []int
		for _, s := range series {
			results, lengths = append(results, len(*s.results)), append(lengths, s.text.Len())
			fmt.Fprintf(s.text, "# round: %d\n", round)
		}
		if err := measure(round); err != nil {
			for i, s := range series {
				*s.results = (*s.results)[:results[i]]
				s.text.Truncate(lengths[i])
				fmt.Fprintf(s.text, "# incomplete: %d of %d rounds\n", runs.Rounds, o.Rounds)
			}
			return runs, err
		}
		runs.Rounds = round
	}
	return runs, nil
}

// once runs the selected benchmarks of a binary once, which tells their names and units. The runs
// also fill the cache of checkpoints.
func (o PairOptions) once(ctx context.Context, b Binary) ([]bench.Result, error) {
	_, results, err := b.run(ctx, o.Bench, "1x", o.Short)
	return results, err
}

// run runs the matching benchmarks and returns their output and results.
func (b Binary) run(
	ctx context.Context, match, benchtime string, short bool,
) (text []byte, results []bench.Result, err error) {
	threads := runtime.GOMAXPROCS(0)
	cmd := exec.CommandContext(ctx, b.Path, "-test.run=^$", "-test.bench="+match, "-test.benchtime="+benchtime,
		fmt.Sprintf("-test.short=%t", short), fmt.Sprintf("-test.cpu=%d", threads), "-test.timeout=0")
	cmd.Dir = b.Dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err = cmd.Output()
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if err != nil {
		message := strings.TrimSpace(string(text) + stderr.String())
		if at := strings.Index(message, "--- FAIL"); at >= 0 {
			message = message[at:]
		}
		return nil, nil, fmt.Errorf("benchmark %s: %w: %s", match, err, message)
	}
	if threads == 1 {
		// A number at the end of a name then belongs to the name.
		text = append([]byte("threads: 1\n"), text...)
	}
	results, err = bench.ParseResults(bytes.NewReader(text), b.Path)
	if err == nil && len(results) == 0 {
		err = errors.New("no benchmark matches " + match)
	}
	return text, results, err
}

// exactly returns the -bench pattern that matches one benchmark.
func exactly(name string) string {
	parts := strings.Split("Benchmark"+name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}
