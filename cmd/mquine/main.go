// Command mquine ranks checkpoints of knowledge graph embeddings exactly, and makes, fetches and
// inspects what that takes. `mquine --help` is its manual.
package main

import (
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

	"github.com/mquine/mquine/internal/text"
)

// The exit statuses of the command.
const (
	exitOK          = 0
	exitFailed      = 1 // bad input, or a file that cannot be read or written
	exitUsage       = 2
	exitInterrupted = 130 // as shells report SIGINT
	exitPipe        = 141 // as shells report SIGPIPE: the reader of standard output is gone
)

func main() {
	start := time.Now()
	ctx, stop := signal.NotifyContext(context.Background(), interruptions()...)
	// A reader that is gone must not end the work, nor lose the files that are still to be written: with the signal
	// caught, writing to it is an error like any other.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	// The first signal asks the work to end; without this, the second would be ignored as well.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, start, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// interruptions lists the signals that ask the work to end. A hang-up is none under nohup.
func interruptions() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// run executes the command line and returns the exit status. An error is one line on stderr.
func run(ctx context.Context, start time.Time, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCommand(start)
	out := &checkedWriter{w: stdout}
	shown, log := text.NewWriter(out), text.NewWriter(stderr) // text.Exact is for what programs read
	defer log.Flush()
	stderr = log
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(shown)
	root.SetErr(stderr)
	root.InitDefaultCompletionCmd() // it keeps the output that is set by now
	markWork(root)
	cmd, err := root.ExecuteContextC(ctx)
	_ = shown.Flush() // out keeps its error
	switch {
	case errors.Is(out.err, syscall.EPIPE) && (err == nil || onlyPipe(err)):
		return exitPipe // as with any other command, nobody is there to be told
	case out.err != nil && !errors.As(err, new(workError)): // cobra's own texts, such as --help
		fmt.Fprintf(stderr, "%s: cannot write standard output: %v\n", cmd.CommandPath(), text.Cause(out.err))
		return exitFailed
	case err == nil:
		return exitOK
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "%s: interrupted\n", cmd.CommandPath())
		return exitInterrupted
	case errors.As(err, new(workError)):
		fmt.Fprintf(stderr, "%s: %s\n", cmd.CommandPath(), oneLine(err))
		return exitFailed
	}
	fmt.Fprintf(stderr, "%s: %s (see %s --help)\n", cmd.CommandPath(), oneLine(err), cmd.CommandPath())
	return exitUsage
}

// onlyPipe tells whether an error, with all that are joined in it, says that a reader is gone.
func onlyPipe(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !onlyPipe(e) })
	}
	if inner := errors.Unwrap(err); inner != nil {
		return onlyPipe(inner)
	}
	return errors.Is(err, syscall.EPIPE)
}

// checkedWriter keeps the first error of w.
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

// oneLine joins the lines of an error, such as those of errors.Join, and escapes what foreign text is in it.
func oneLine(err error) string {
	message := strings.Replace(err.Error(), "\n\nDid you mean this?\n\t", "; did you mean ", 1) // as cobra asks
	var parts []string
	for part := range strings.Lines(message) {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return text.Escape(strings.Join(parts, "; "))
}
