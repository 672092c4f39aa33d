package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// verdict is the result of a mutation.
type verdict int

const (
	notRun        verdict = iota
	caught                // a test fails
	equivalent            // the tests pass, and the list says why
	survived              // the tests pass
	notEquivalent         // a test fails, although the list says that nothing changes
	hung                  // the tests did not end in time, although the list does not say so
	notBuilt              // the changed code does not compile
	notFound              // the code does not contain the text to change
)

func (v verdict) String() string {
	return [...]string{
		"not run", "caught", "equivalent", "SURVIVED", "NOT EQUIVALENT", "HUNG", "DOES NOT BUILD", "NOT FOUND",
	}[v]
}

// good reports whether the tests treat a mutation correctly.
func (v verdict) good() bool { return v == caught || v == equivalent }

// runner runs mutations.
type runner struct {
	root     string // root of the repository
	jobs     int
	timeout  time.Duration // time limit for the tests of one mutation
	progress io.Writer

	mu sync.Mutex // guards progress
}

// run sets the verdicts of all mutations. It returns an error if there can be no verdicts, for
// example because the tests fail without a mutation or ctx is cancelled.
func (r *runner) run(ctx context.Context, all lists) error {
	temp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := r.passing(ctx, all, temp); err != nil {
		return err
	}
	total, _ := all.count()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(r.jobs)
	started := 0
	for _, l := range all {
		for _, m := range l.Mutations {
			started++
			number := started
			group.Go(func() error {
				if err := r.try(ctx, m, filepath.Join(temp, strconv.Itoa(number))); err != nil {
					return fmt.Errorf("%s: %w", m.Name, err)
				}
				r.say("%3d of %d  %-14s %s\n", number, total, m.verdict, m.Name)
				return nil
			})
		}
	}
	return group.Wait()
}

func (r *runner) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.progress, format, args...)
}

// passing checks that there are tests and that they pass without a mutation.
func (r *runner) passing(ctx context.Context, all lists, temp string) error {
	patterns := map[string][]string{}
	for _, l := range all {
		for _, m := range l.Mutations {
			if !slices.Contains(patterns[m.Package], m.Test) {
				patterns[m.Package] = append(patterns[m.Package], m.Test)
			}
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(r.jobs)
	for pkg, tests := range patterns {
		group.Go(func() error {
			binary := filepath.Join(temp, strings.ReplaceAll(pkg, "/", "_"))
			if output, err := r.build(ctx, pkg, binary, ""); err != nil {
				return fmt.Errorf("the tests of %s do not build without a mutation: %w\n%s", pkg, err, output)
			}
			for _, test := range tests {
				output, err := r.test(ctx, pkg, binary, test)
				if err != nil {
					return fmt.Errorf("the tests %s of %s fail without a mutation: %w\n%s",
						test, pkg, err, tail(output))
				}
				if !passed.Match(output) {
					return fmt.Errorf("%s has no test %s that runs on this machine", pkg, test)
				}
				r.say("unchanged code passes %s of %s\n", test, pkg)
			}
			return os.Remove(binary)
		})
	}
	return group.Wait()
}

// try sets the verdict of a mutation. It creates temporary files in dir. After an error, there is
// no verdict.
func (r *runner) try(ctx context.Context, m *mutation, dir string) error {
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	original := filepath.Join(r.root, filepath.FromSlash(m.File))
	text, err := os.ReadFile(original)
	if err != nil {
		m.verdict, m.detail = notFound, err.Error()
		return nil
	}
	mutated, err := m.apply(string(text))
	if err != nil {
		m.verdict, m.detail = notFound, err.Error()
		return nil
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	replacement, overlay, binary := in(filepath.Base(m.File)), in("overlay.json"), in("test")
	files, err := json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
	if err == nil {
		err = errors.Join(os.WriteFile(replacement, []byte(mutated), 0o666), os.WriteFile(overlay, files, 0o666))
	}
	if err != nil {
		return err
	}
	if output, err := r.build(ctx, m.Package, binary, overlay); err != nil {
		m.verdict, m.detail = notBuilt, tail(output)
		return ctx.Err()
	}
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	output, err := r.test(limited, m.Package, binary, m.Test)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return m.judge(output, err, limited.Err() != nil)
}

// judge sets the verdict based on the output and the error of the tests. late reports whether the
// time limit expired.
func (m *mutation) judge(output []byte, err error, late bool) error {
	var exit *exec.ExitError
	switch {
	case late && m.Hangs:
		m.verdict, m.detail = caught, "the tests hang"
	case late:
		m.verdict = hung
	case err == nil && m.Equivalent != "":
		m.verdict, m.detail = equivalent, m.Equivalent
	case err == nil:
		m.verdict = survived
	case !errors.As(err, &exit) || exit.ExitCode() < 0: // could not start, or was killed
		return fmt.Errorf("running the tests: %w", err)
	default:
		m.verdict, m.detail = caught, failed(output)
		if m.Equivalent != "" {
			m.verdict = notEquivalent
		}
	}
	return nil
}

// build compiles the tests of a package, with an overlay if its path is not empty, and returns the
// compiler's output.
func (r *runner) build(ctx context.Context, pkg, binary, overlay string) ([]byte, error) {
	args := []string{"test", "-c", "-o", binary, "-ldflags=-s -w"} // linking is faster without debugging information
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	return r.command(ctx, r.root, "go", append(args, pkg)...)
}

// test runs tests of a package in its folder, as go test does, and returns their output.
func (r *runner) test(ctx context.Context, pkg, binary, pattern string) ([]byte, error) {
	dir := filepath.Join(r.root, filepath.FromSlash(pkg))
	return r.command(ctx, dir, binary, "-test.v", "-test.short", "-test.failfast", "-test.run", pattern)
}

func (r *runner) command(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.WaitDelay = dir, 5*time.Second
	c.Env = append(os.Environ(), "RAPID_NOFAILFILE=true") // keep rapid from writing failures to the working tree
	if name == "go" {                                     // go ends its children when it is interrupted
		c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	}
	return c.CombinedOutput()
}

var (
	passed  = regexp.MustCompile(`(?m)^--- PASS: `)
	failure = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	begun   = regexp.MustCompile(`(?m)^=== RUN   ([^/\s]+)$`)
)

// failed returns the names of the failed tests.
func failed(output []byte) string {
	var names []string
	for _, match := range failure.FindAllSubmatch(output, -1) {
		names = append(names, string(match[1]))
	}
	if running := begun.FindAllSubmatch(output, -1); len(names) == 0 && len(running) > 0 {
		names = append(names, string(running[len(running)-1][1])) // the test that crashed
	}
	return strings.Join(names, ", ")
}

// tail returns the last lines of output.
func tail(output []byte) string {
	lines := bytes.Split(bytes.TrimSpace(output), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-10):], []byte("\n")))
}
