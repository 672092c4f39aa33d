// Command mquine evaluates, trains and benchmarks knowledge graph embedding models. `mquine --help`
// is its manual.
//
// Each file defines the command that gives the file its name, or helpers that several commands
// share. newRootCommand builds the command tree.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/text"
)

// The exit statuses of the command.
const (
	exitOK          = 0
	exitFailed      = 1 // bad input, or a file that cannot be read or written
	exitUsage       = 2
	exitInterrupted = 130 // the status that shells report for SIGINT
	exitPipe        = 141 // the status that shells report for SIGPIPE: the reader of standard output is gone
)

func main() {
	start := time.Now()
	prepareConsole()
	ctx, stop := signal.NotifyContext(context.Background(), interruptions()...)
	// Catch SIGPIPE, so that writing to a closed pipe is an ordinary error. Without this call, the
	// process would end before it writes its other files.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	// The first signal cancels ctx. Restore the default handling, so that a second signal ends the
	// process.
	context.AfterFunc(ctx, stop)
	os.Exit(execute(ctx, start, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// interruptions returns the signals that cancel the work. It leaves out SIGINT and SIGHUP if the caller has
// made the process ignore them, as a shell script does with SIGINT in its background and nohup with SIGHUP.
// Go does not tell whether SIGTERM was ignored.
func interruptions() []os.Signal {
	return slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, signal.Ignored)
}

// execute executes the command line args and returns the exit status. It reports an error as one
// line on stderr.
func execute(ctx context.Context, start time.Time, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx = withInvocation(ctx, args, start)
	root := newRootCommand(start)
	out := &checkedWriter{w: atomicfile.Patient(ctx, stdout)}
	shown, log := text.NewWriter(out), text.NewWriter(atomicfile.Patient(ctx, stderr))
	defer log.Flush()
	stderr = log
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(shown)
	root.SetErr(stderr)
	root.InitDefaultCompletionCmd() // call SetOut first, because this call stores the current output
	fitCompletionHelp(root)
	markWork(root)
	cmd, err := root.ExecuteContextC(ctx)
	_ = shown.Flush() // out records the error
	switch {
	case (isPipeError(out.err) || errors.As(err, new(stdoutGoneError))) && (err == nil || onlyPipe(err)):
		return exitPipe // silently, like other commands
	case ctx.Err() != nil && cmp.Or(err, out.err) != nil:
		printError(stderr, cmd, "interrupted"+otherProblem(ctx, cmp.Or(err, out.err))+continuation(err))
		return exitInterrupted
	case out.err != nil && !errors.As(err, new(workError)): // cobra itself printed the text, for example for --help
		printError(stderr, cmd, "cannot write standard output: "+oneLine(text.Cause(out.err)))
		return exitFailed
	case err == nil:
		return exitOK
	case errors.As(err, new(workError)):
		printError(stderr, cmd, oneLine(err))
		return exitFailed
	}
	printError(stderr, cmd, fmt.Sprintf("%s (see %s --help)", oneLine(err), cmd.CommandPath()))
	return exitUsage
}

// printError prints the error of a command as a line.
func printError(w io.Writer, cmd *cobra.Command, message string) {
	fmt.Fprintf(w, "%s %s\n", text.Red.Of(w, cmd.CommandPath()+":"), message)
}

// resumableError is the error of interrupted work that a command line can continue.
type resumableError struct {
	error
	command string
}

func (e resumableError) Unwrap() error { return e.error }

// otherProblem returns the part of the message about interrupted work that says what else went wrong, such as a failed
// save, or "".
func otherProblem(ctx context.Context, err error) string {
	var others []error
	var visit func(err error)
	visit = func(err error) {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				visit(e)
			}
		} else if inner := errors.Unwrap(err); inner != nil && errors.Is(err, ctx.Err()) {
			visit(inner)
		} else if err != nil && !errors.Is(err, ctx.Err()) {
			others = append(others, err)
		}
	}
	visit(err)
	if len(others) == 0 {
		return ""
	}
	return ": " + oneLine(errors.Join(others...))
}

// continuation returns the end of the message about interrupted work. It says how to continue the
// work, or is empty if that is not possible.
func continuation(err error) string {
	var resumable resumableError
	if !errors.As(err, &resumable) {
		return ""
	}
	return "; to continue: " + text.Escape(resumable.command)
}

// onlyPipe reports whether err says that the reader of a pipe is gone. For joined errors, all of
// them must say so.
func onlyPipe(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !onlyPipe(e) })
	}
	if inner := errors.Unwrap(err); inner != nil {
		return onlyPipe(inner)
	}
	return isPipeError(err)
}

// checkedWriter writes to w and keeps the first error.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Unwrap() io.Writer { return c.w }

func (c *checkedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// oneLine joins the different lines of an error, such as one from errors.Join, and escapes untrusted text.
func oneLine(err error) string {
	message := strings.Replace(err.Error(), "\n\nDid you mean this?\n\t", "; did you mean ", 1) // cobra's question
	var parts []string
	for part := range strings.Lines(message) {
		if part = strings.TrimSpace(part); part != "" && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return text.Escape(strings.Join(parts, "; "))
}
