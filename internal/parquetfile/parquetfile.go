// Package parquetfile writes tables as Apache Parquet files.
package parquetfile

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// Column describes a column, whose values must not be null.
type Column struct {
	Name string
	// Type is String for labels, which are stored in a dictionary, Int32 or Float64.
	Type reflect.Kind
}

const (
	// rowGroup is the number of rows in a row group. Its columns are in memory until it is complete.
	rowGroup = 1 << 20
	// mostRows bounds the number of converted rows that a Writer holds.
	mostRows = 4096
)

// Writer converts tab-separated lines to a Parquet file. Each line has one field for each column.
// There is no header. Call Close at the end.
type Writer struct {
	columns []Column
	out     *parquet.GenericWriter[any]
	rest    []byte // the beginning of a line that is not complete
	rows    []parquet.Row
}

// NewWriter returns a Writer to w. The file depends only on the columns and the lines.
func NewWriter(w io.Writer, columns []Column) *Writer {
	types := map[reflect.Kind]reflect.Type{
		reflect.String: reflect.TypeFor[string](), reflect.Int32: reflect.TypeFor[int32](),
		reflect.Float64: reflect.TypeFor[float64](),
	}
	fields := make([]reflect.StructField, len(columns))
	for i, c := range columns {
		tag := c.Name
		if c.Type == reflect.String {
			tag += ",dict"
		}
		fields[i] = reflect.StructField{
			Name: "C" + strconv.Itoa(i), Type: types[c.Type], Tag: reflect.StructTag(`parquet:"` + tag + `"`),
		}
	}
	schema := parquet.SchemaOf(reflect.New(reflect.StructOf(fields)).Elem().Interface())
	out := parquet.NewGenericWriter[any](w, schema, parquet.Compression(&zstd.Codec{}),
		parquet.MaxRowsPerRowGroup(rowGroup), parquet.CreatedBy("mquine", "", ""))
	return &Writer{columns: columns, out: out}
}

// Write converts the complete lines in data, and keeps the rest for the next call. The library may
// end a page after each call, so only full batches of rows reach it: the bytes of the file do not
// depend on how the lines reach Write.
func (w *Writer) Write(data []byte) (int, error) {
	n := len(data)
	for {
		line, rest, complete := bytes.Cut(data, []byte("\n"))
		if !complete {
			w.rest = append(w.rest, data...)
			return n, nil
		}
		if len(w.rest) > 0 {
			line = append(w.rest, line...)
		}
		if err := w.add(line); err != nil {
			return 0, err
		}
		if len(w.rows) == mostRows {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
		w.rest, data = w.rest[:0], rest
	}
}

// add adds a line.
func (w *Writer) add(line []byte) error {
	row := make(parquet.Row, len(w.columns))
	for i, c := range w.columns {
		field, rest, more := bytes.Cut(line, []byte("\t"))
		if more != (i < len(w.columns)-1) {
			return fmt.Errorf("a line for Parquet does not have %d fields", len(w.columns))
		}
		line = rest
		v, err := value(c.Type, string(field))
		if err != nil {
			return fmt.Errorf("column %s: %w", c.Name, err)
		}
		row[i] = v.Level(0, 0, i)
	}
	w.rows = append(w.rows, row)
	return nil
}

// value converts a field.
func value(kind reflect.Kind, field string) (parquet.Value, error) {
	switch kind {
	case reflect.Int32:
		n, err := strconv.ParseInt(field, 10, 32)
		return parquet.Int32Value(int32(n)), err
	case reflect.Float64:
		x, err := strconv.ParseFloat(field, 64)
		return parquet.DoubleValue(x), err
	}
	return parquet.ByteArrayValue([]byte(field)), nil
}

// flush passes the collected rows on to the library.
func (w *Writer) flush() error {
	_, err := w.out.WriteRows(w.rows)
	w.rows = w.rows[:0]
	return err
}

// Close completes the file. A last line without a line feed is an error.
func (w *Writer) Close() error {
	if len(w.rest) > 0 {
		return fmt.Errorf("the last line for Parquet does not end with a line feed")
	}
	if err := w.flush(); err != nil {
		return err
	}
	return w.out.Close()
}
