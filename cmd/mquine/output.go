package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/text"
)

// printLine writes a line, of a log or of a result: labels, names and paths are data, and cannot end it.
func printLine(w io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintln(w, text.Escape(fmt.Sprintf(format, args...)))
	return err
}

// writeNotes writes what a user should know about the data.
func writeNotes(w io.Writer, notes []string) {
	for _, note := range notes {
		printLine(w, "note: %s", note)
	}
}

// jsonFlag adds the flag --json.
func jsonFlag(cmd *cobra.Command, file *string) {
	addOutput(cmd, file, "json", "write the result as JSON to this `file`, or to standard output if it is \"-\"")
}

// writeJSON writes v to a file, whole or not at all, or to standard output if the file is "-".
func writeJSON(cmd *cobra.Command, file string, v any) error {
	var data bytes.Buffer
	if err := text.WriteJSON(&data, v); err != nil {
		return fmt.Errorf("writing the JSON result: %w", err)
	}
	return writeFile(cmd, file, data.Bytes())
}

// writeFile writes data for programs to a file, whole or not at all, or to standard output if the file is "-".
func writeFile(cmd *cobra.Command, file string, data []byte) error {
	return writeTo(cmd.OutOrStdout(), file, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// writeTo is writeFile for what write writes.
func writeTo(stdout io.Writer, file string, write func(io.Writer) error) error {
	if file != "-" {
		return atomicfile.Write(file, write)
	}
	buffer := bufio.NewWriterSize(text.Exact(stdout), 1<<16)
	err := write(buffer)
	if err == nil {
		err = buffer.Flush()
	}
	if err != nil {
		return fmt.Errorf("cannot write standard output: %w", text.Cause(err))
	}
	return nil
}

// writeOutput writes text for people to standard output.
func writeOutput(cmd *cobra.Command, data []byte) error {
	if _, err := cmd.OutOrStdout().Write(data); err != nil {
		return fmt.Errorf("cannot write standard output: %w", text.Cause(err))
	}
	return nil
}

// writeResult writes the result of a command: as JSON if a file for it is given, and for people
// unless the JSON went to standard output.
func writeResult(cmd *cobra.Command, jsonFile string, result interface{ print(*bytes.Buffer) }) error {
	if jsonFile != "" {
		if err := writeJSON(cmd, jsonFile, result); err != nil || jsonFile == "-" {
			return err
		}
	}
	var tables bytes.Buffer
	result.print(&tables)
	return writeOutput(cmd, tables.Bytes())
}

// sizes writes the numbers of entities and relations.
func sizes(entities, relations int) string {
	return text.Plural(entities, "entity") + ", " + text.Plural(relations, "relation")
}

// lineWriter writes lines of fields separated by tabs, and keeps the first error.
type lineWriter struct{ *bufio.Writer }

func newLineWriter(w io.Writer) lineWriter { return lineWriter{bufio.NewWriter(w)} }

func (w lineWriter) write(fields ...string) {
	_, _ = w.WriteString(strings.Join(fields, "\t")) // flush tells
	_ = w.WriteByte('\n')
}

func (w lineWriter) flush() error { return w.Flush() }
