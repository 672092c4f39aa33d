package bench

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/mquine/mquine/internal/input"
)

// Result is one line of a file in the Go benchmark format.
type Result struct {
	// Name is the benchmark's, without "Benchmark" and the number of threads.
	Name string
	// Config has the configuration lines that were in force.
	Config map[string]string
	// Values are by unit, in seconds where the file has ns.
	Values map[string]float64
}

// Round returns the round of an interleaved comparison that the result belongs to, 0 if it belongs
// to none.
func (r Result) Round() int {
	n, _ := strconv.Atoi(r.Config["round"])
	return n
}

// ReadResults reads a file in the Go benchmark format. A file without any result is an error.
func ReadResults(ctx context.Context, path string) ([]Result, error) {
	f, err := input.Open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("cannot read results: %w", err)
	}
	defer f.Close()
	all, err := ParseResults(f, path)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s has no benchmark results: it must be in the format that go test -bench prints", path)
	}
	return all, err
}

// ParseResults reads results in the Go benchmark format, among which other lines do not matter. The
// name is for error messages.
func ParseResults(r io.Reader, name string) ([]Result, error) {
	reader := benchfmt.NewReader(r, name)
	var all []Result
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, fmt.Errorf("cannot read results: %w", record)
		case *benchfmt.Result:
			all = append(all, newResult(record))
		}
	}
	if err := reader.Err(); err != nil {
		return nil, fmt.Errorf("cannot read results: %w", err)
	}
	return all, nil
}

func newResult(record *benchfmt.Result) Result {
	r := Result{Config: map[string]string{}, Values: map[string]float64{}}
	base, parts := record.Name.Parts()
	r.Name = string(base)
	for _, p := range parts {
		if !strings.HasPrefix(string(p), "-") { // the number of threads
			r.Name += string(p)
		}
	}
	for _, c := range record.Config {
		r.Config[c.Key] = string(c.Value)
	}
	for _, v := range record.Values {
		r.Values[v.Unit] = v.Value
	}
	return r
}
