package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/compressed"
	"github.com/mquine/mquine/internal/text"
)

// printLine writes a line of a log or a result. It escapes untrusted text, so a label, name or path
// cannot end the line.
func printLine(w io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintln(w, text.Escape(fmt.Sprintf(format, args...)))
	return err
}

// printWrapped is like printLine, but breaks the line between words, after at most 80 columns.
func printWrapped(w io.Writer, format string, args ...any) {
	fmt.Fprintln(w, text.Wrap(text.Escape(fmt.Sprintf(format, args...))))
}

// printNote prints a line that begins with "note:".
func printNote(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "%s %s\n", text.Yellow.Of(w, "note:"), text.Escape(fmt.Sprintf(format, args...)))
}

// writeNotes prints the notes about a data set, a checkpoint or a run.
func writeNotes(w io.Writer, notes []string) {
	for _, note := range notes {
		printNote(w, "%s", note)
	}
}

// plain matches words that a POSIX shell does not change.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellCommand returns a command line that a POSIX shell reads as words.
func shellCommand(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		if quoted[i] = word; !plain.MatchString(word) {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// jsonFlag adds the flag --json.
func jsonFlag(cmd *cobra.Command, file *string) {
	addOutput(cmd, file, "json", jsonFormat, "write the result as JSON to `FILE` (- is standard output)")
}

// writeJSON writes v as JSON to a file, atomically, or to standard output if file is "-".
func writeJSON(cmd *cobra.Command, file string, v any) error {
	var data bytes.Buffer
	if err := text.WriteJSON(&data, v); err != nil {
		return fmt.Errorf("cannot write the result as JSON: %w", err)
	}
	return writeFile(cmd, file, data.Bytes())
}

// writeFile writes machine-readable data to a file, atomically, or to standard output if file is
// "-".
func writeFile(cmd *cobra.Command, file string, data []byte) error {
	return writeTo(cmd.Context(), cmd.OutOrStdout(), file, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// writeTo is like writeFile, but calls write to produce the data.
func writeTo(ctx context.Context, stdout io.Writer, file string, write func(io.Writer) error) error {
	if file != "-" {
		return writeNamed(ctx, file, write)
	}
	buffer := bufio.NewWriterSize(text.Exact(stdout), 1<<16)
	err := write(buffer)
	if err == nil {
		err = buffer.Flush()
	}
	return unprinted(err)
}

// unprinted returns the error of a command whose result cannot be printed because of err, or nil if err is
// nil.
func unprinted(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot write standard output: %w", text.Cause(err))
}

// writeNamed writes a file, and compresses it if its name ends with .gz or .zst.
func writeNamed(ctx context.Context, file string, write func(io.Writer) error) error {
	err := atomicfile.WriteContext(ctx, file, func(w io.Writer) error { return compressed.Write(w, file, write) })
	if isPipeError(err) && sameOutput(file, "-") {
		return stdoutGoneError{err}
	}
	return err
}

// stdoutGoneError says that the reader of standard output is gone, although the command wrote to it by a
// name such as /dev/stdout.
type stdoutGoneError struct{ error }

func (e stdoutGoneError) Unwrap() error { return e.error }

// writeOutput writes human-readable text to standard output.
func writeOutput(cmd *cobra.Command, data []byte) error {
	_, err := cmd.OutOrStdout().Write(data)
	return unprinted(err)
}

// writeResult writes the result of a command as JSON if jsonFile is set, and as tables unless the
// JSON goes to standard output.
func writeResult(cmd *cobra.Command, jsonFile string, result interface{ print(io.Writer) }) error {
	return writeAndPrint(cmd, jsonFile, result, func() error {
		tables := outputBuffer{out: cmd.OutOrStdout()}
		result.print(&tables)
		return writeOutput(cmd, tables.Bytes())
	})
}

// writeAndPrint writes a result as JSON if jsonFile is set, and calls print unless the JSON goes to
// standard output. It calls print even if the file cannot be written, because the result may have
// taken a long time.
func writeAndPrint(cmd *cobra.Command, jsonFile string, result any, print func() error) (err error) {
	if jsonFile != "" {
		err = writeJSON(cmd, jsonFile, result)
	}
	if jsonFile != "-" {
		err = errors.Join(err, print())
	}
	return err
}

// outputBuffer is a buffer for text that goes to out. Tables in it fit the terminal of out.
type outputBuffer struct {
	bytes.Buffer
	out io.Writer
}

func (b *outputBuffer) Unwrap() io.Writer { return b.out }

// sizes returns text such as "14,541 entities, 237 relations".
func sizes(entities, relations int) string {
	return text.Plural(entities, "entity") + ", " + text.Plural(relations, "relation")
}
