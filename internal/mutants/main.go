// Command mutants tests the tests. The lists of mutations in its folder (*.yaml) name small wrong
// changes to the code and the tests that must fail because of them. The command makes one change at
// a time in an overlay, without touching the working tree. It runs the tests and reports the
// mutations that no test catches.
//
//	go run ./internal/mutants -run 'int8|bootstrap'
//
// Run it in the root of the repository.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := command(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "mutants: interrupted")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// command runs the mutations that args select and writes the table to out.
func command(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(progress)
	lists := flags.String("lists", filepath.Join("internal", "mutants", "*.yaml"),
		"glob `pattern` of the lists of mutations")
	names := flags.String("run", "", "run only mutations whose list/name matches the `regexp`")
	jobs := flags.Int("jobs", max(1, runtime.NumCPU()/2), "number of mutations to test at the same time")
	timeout := flags.Duration("timeout", 5*time.Minute, "time limit for the tests of one mutation")
	doc := flags.String("doc", "", "also write the result as Markdown to `file`")
	if err := flags.Parse(args); err != nil {
		return flag.ErrHelp // flags has printed the error
	}
	if flags.NArg() > 0 || *jobs < 1 || *timeout <= 0 || *doc != "" && *names != "" {
		fmt.Fprintln(progress, "mutants: -jobs and -timeout must be positive, -doc and -run exclude each other, "+
			"and there are no arguments besides flags")
		return flag.ErrHelp
	}
	selected, err := regexp.Compile(*names)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	all, err := loadLists(*lists)
	if err != nil {
		return err
	}
	if all = all.matching(selected); len(all) == 0 {
		return fmt.Errorf("no mutation matches %s", *names)
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	start := time.Now()
	r := &runner{root: root, jobs: *jobs, timeout: *timeout, progress: progress}
	if err := r.run(ctx, all); err != nil {
		return err
	}
	writeTable(out, all)
	if *doc != "" {
		if err := os.WriteFile(*doc, markdown(all), 0o666); err != nil {
			return err
		}
	}
	total, bad := all.count()
	fmt.Fprintf(progress, "%d mutations in %s\n", total, time.Since(start).Round(time.Second))
	if bad > 0 {
		return fmt.Errorf("%d of %d mutations are neither caught nor equivalent", bad, total)
	}
	return nil
}
