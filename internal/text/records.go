package text

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"strings"
)

// WriteRecords writes a header and rows for programs, without escaping: as tab-separated text if f
// is FormatTSV, and otherwise as CSV. In tab-separated text, fields must not contain tabs or line
// feeds; labels of data sets contain neither.
func WriteRecords(w io.Writer, f Format, header []string, rows iter.Seq[[]string]) error {
	if f == FormatTSV {
		return WriteRows(w, func(yield func([]string) bool) {
			if yield(header) {
				rows(yield)
			}
		})
	}
	lines := csv.NewWriter(bufio.NewWriterSize(w, recordsBuffer)) // which becomes the buffer of lines
	err := lines.Write(header)
	for row := range rows {
		if err != nil {
			return err
		}
		err = lines.Write(row)
	}
	if err != nil {
		return err
	}
	lines.Flush()
	return lines.Error()
}

// recordsBuffer is the size of the buffer for records, in bytes. Every write to the destination may need a
// goroutine (atomicfile.Patient), so it is large.
const recordsBuffer = 64 << 10

// WriteRows writes the rows of tab-separated text, without a header.
func WriteRows(w io.Writer, rows iter.Seq[[]string]) error {
	buf := bufio.NewWriterSize(w, recordsBuffer)
	for row := range rows {
		if _, err := buf.WriteString(strings.Join(row, "\t") + "\n"); err != nil {
			return err
		}
	}
	return buf.Flush()
}

// Fields formats values as a row for WriteRecords.
func Fields(values ...any) []string {
	row := make([]string, len(values))
	for i, v := range values {
		row[i] = fmt.Sprint(v)
	}
	return row
}
