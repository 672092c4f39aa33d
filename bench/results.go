package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchunit"

	"github.com/mquine/mquine/internal/compressed"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg/catalogue"
)

// Result is one line of a file in the Go benchmark format.
type Result struct {
	// Name is the benchmark's name without the prefix "Benchmark" and the number of threads at the
	// end.
	Name string
	// Threads is the number of threads at the end of the name, or 1 if the name does not end with
	// one. Such a name is from a run on one thread.
	Threads int
	// Config contains the configuration lines above the result, and the comments that describe the
	// run: commit, commit-time, measured, go, ceiling and round.
	Config map[string]string
	// Values are indexed by unit. Times are in seconds where the file uses nanoseconds.
	Values map[string]float64
}

// Round returns the result's round in an interleaved comparison, or 0 if it has none.
func (r Result) Round() int {
	n, _ := strconv.Atoi(r.Config["round"])
	return n
}

// ReadResults reads a file in the Go benchmark format, compressed or not. A file without results is an error.
func ReadResults(ctx context.Context, path string) ([]Result, error) {
	f, err := compressed.Open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("cannot read results from %s: %w", path, text.Cause(err))
	}
	defer f.Close()
	all, err := ParseResults(f, path)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s has no benchmark results in the format of go test -bench", path)
	}
	return all, err
}

// runLine matches a comment that describes the run, such as "# commit: 0123456789". These values
// are comments because benchstat compares results only if all their configuration lines agree.
// Files from earlier versions have them as configuration lines.
var runLine = regexp.MustCompile(`(?m)^# ((?:commit|commit-time|measured|go|ceiling|round): )`)

// ParseResults reads results in the Go benchmark format and skips other lines. name appears in
// error messages. A last line without a line break is an error: go test and mquine always write one,
// so the text is incomplete, and the line may lack metrics or digits.
func ParseResults(r io.Reader, name string) ([]Result, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("cannot read results: %w", err)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		return nil, fmt.Errorf("cannot read results from %s: the last line has no line break, so the file may be "+
			"incomplete: copy it again, or add a line break if the line is complete", name)
	}
	reader := benchfmt.NewReader(bytes.NewReader(runLine.ReplaceAll(text, []byte("$1"))), name)
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
	r := Result{Threads: 1, Config: map[string]string{}, Values: map[string]float64{}}
	for _, c := range record.Config {
		r.Config[c.Key] = string(c.Value)
	}
	base, parts := record.Name.Parts()
	r.Name = string(base)
	for _, p := range parts {
		r.Name += string(p)
		suffix, found := strings.CutPrefix(string(p), "-")
		n, err := strconv.Atoi(suffix)
		if found && err == nil && (n == 1 || r.Config["threads"] != "1") && !endsWithData(r.Name) {
			r.Name = strings.TrimSuffix(r.Name, string(p))
			r.Threads = n
		}
	}
	for _, v := range record.Values {
		value, unit := benchunit.Tidy(v.Value, v.Unit) // the reader keeps the units of 0 and Inf
		r.Values[unit] = value
	}
	return r
}

// endsWithData reports whether a name ends with the name of a data set, such as Load/data=fb15k-237. On
// one thread, it has no further suffix.
func endsWithData(name string) bool {
	_, data, found := strings.Cut(name, "/data=")
	_, known := catalogue.Find(data)
	return found && known
}
