package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"
)

// addVerbosity adds the flags --verbose and --quiet to all commands.
func addVerbosity(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.BoolP("verbose", "v", false, "also print details: memory, times, statistics, more metrics")
	flags.BoolP("quiet", "q", false, "print only results, errors and a change from GPUs to the processor")
}

// setVerbosity sets how much the command prints to standard error, as --verbose and --quiet say.
func setVerbosity(cmd *cobra.Command) error {
	set := func(flag string) bool { return cmd.Flag(flag).Value.String() == "true" }
	switch root := cmd.Root(); {
	case set("verbose") && set("quiet"):
		return errors.New("give --verbose or --quiet, not both")
	case set("quiet"):
		root.SetErr(quietWriter{root.ErrOrStderr()}) // execute has its own writer for errors
	case set("verbose"):
		root.SetErr(verboseWriter{root.ErrOrStderr()})
	}
	return nil
}

// quietWriter is standard error if --quiet is given. It shows nothing.
type quietWriter struct{ to io.Writer }

func (quietWriter) Write(p []byte) (int, error) { return len(p), nil }

// always returns a writer for what --quiet must not hide.
func always(log io.Writer) io.Writer {
	if quiet, ok := log.(quietWriter); ok {
		return quiet.to
	}
	return log
}

// verboseWriter is standard error if --verbose is given. It shows details.
type verboseWriter struct{ io.Writer }

func (w verboseWriter) Unwrap() io.Writer { return w.Writer }

// details returns log if log is a verboseWriter, and otherwise a writer that discards the details.
func details(log io.Writer) io.Writer {
	if _, ok := log.(verboseWriter); ok {
		return log
	}
	return io.Discard
}
