package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mquine/mquine/internal/atomicfile"
)

// newTable returns a table without frame; the first column is text, the given others are numbers.
func newTable(numbers ...int) table.Writer {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatDefault
	style.Options = table.OptionsNoBordersAndSeparators
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	columns := make([]table.ColumnConfig, len(numbers))
	for i, n := range numbers {
		columns[i] = table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight}
	}
	t.SetColumnConfigs(columns)
	return t
}

// jsonFlag adds the flag --json.
func jsonFlag(cmd *cobra.Command, file *string) {
	addOutput(cmd, file, "json", "write the result as JSON to this `file`, or to standard output if it is \"-\"")
}

// writeJSON writes v to a file, whole or not at all, or to standard output if the file is "-".
func writeJSON(cmd *cobra.Command, file string, v any) error {
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(v)
	if err != nil {
		return fmt.Errorf("writing the JSON result: %w", err)
	}
	return writeFile(cmd, file, data.Bytes())
}

// writeFile writes data to a file, whole or not at all, or to standard output if the file is "-".
func writeFile(cmd *cobra.Command, file string, data []byte) error {
	if file == "-" {
		return writeOutput(cmd, data)
	}
	return atomicfile.WriteBytes(file, data)
}

// writeTo writes a file with what write writes, whole or not at all, or standard output if the file is "-".
func writeTo(stdout io.Writer, file string, write func(io.Writer) error) error {
	if file != "-" {
		return atomicfile.Write(file, write)
	}
	buffer := bufio.NewWriterSize(stdout, 1<<16)
	err := write(buffer)
	if err == nil {
		err = buffer.Flush()
	}
	if err != nil {
		return fmt.Errorf("cannot write standard output: %w", reason(err))
	}
	return nil
}

// writeOutput writes data to standard output.
func writeOutput(cmd *cobra.Command, data []byte) error {
	if _, err := cmd.OutOrStdout().Write(data); err != nil {
		return fmt.Errorf("cannot write standard output: %w", reason(err))
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
	var text bytes.Buffer
	result.print(&text)
	return writeOutput(cmd, text.Bytes())
}

// reason returns the cause of an error about a file, without the name, for sentences that have it.
func reason(err error) error {
	var file *fs.PathError
	if errors.As(err, &file) {
		return file.Err
	}
	return err
}

// sizes writes the numbers of entities and relations.
func sizes(entities, relations int) string {
	return plural(entities, "entity") + ", " + plural(relations, "relation")
}

// onTerminal tells whether what is written to w is read as it comes.
func onTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
