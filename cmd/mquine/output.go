package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/google/renameio/v2"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"golang.org/x/term"
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
	cmd.Flags().StringVar(file, "json", "", "write the result as JSON to this `file`, or to standard output if it is \"-\"")
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
	return writeFile(cmd, file, "the JSON result", data.Bytes())
}

// writeFile writes data to a file, whole or not at all, or to standard output if the file is "-".
// what says what it is, for messages.
func writeFile(cmd *cobra.Command, file, what string, data []byte) (err error) {
	switch info, statErr := os.Stat(file); {
	case file == "-":
		_, err = cmd.OutOrStdout().Write(data)
	case statErr == nil && !info.Mode().IsRegular():
		err = os.WriteFile(file, data, 0) // a pipe or a device, which nothing may replace
	default:
		err = renameio.WriteFile(file, data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", what, err)
	}
	return nil
}

// onTerminal tells whether what is written to w is read as it comes.
func onTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
