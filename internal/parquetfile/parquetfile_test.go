package parquetfile

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// row has the columns of columns.
type row struct {
	Head  string  `parquet:"head"`
	Rank  int32   `parquet:"rank"`
	Score float64 `parquet:"score"`
}

var columns = []Column{{"head", reflect.String}, {"rank", reflect.Int32}, {"score", reflect.Float64}}

// TestWriter writes lines in pieces of several lengths, and reads the rows. Labels and float64
// values come back unchanged, the columns keep their order, and the file does not depend on the
// pieces.
func TestWriter(t *testing.T) {
	var want []row
	var lines bytes.Buffer
	for i := range 80_000 { // more than a page of scores
		score := math.Nextafter(-1/float64(i+1), 1)
		if i == 7 {
			score = math.Inf(-1)
		}
		want = append(want, row{[]string{"", `a "b`, "x,y", "é\x1b"}[i%4], int32(i - 3), score})
		fmt.Fprintf(&lines, "%s\t%d\t%s\n", want[i].Head, want[i].Rank, strconv.FormatFloat(score, 'g', -1, 64))
	}
	var first []byte
	for _, piece := range []int{1, 13, 4096, lines.Len()} {
		var file bytes.Buffer
		w := NewWriter(&file, columns)
		for text := lines.Bytes(); len(text) > 0; {
			n := min(piece, len(text))
			written, err := w.Write(text[:n])
			require.NoError(t, err)
			require.Equal(t, n, written)
			text = text[n:]
		}
		require.NoError(t, w.Close())
		if first == nil {
			first = file.Bytes()
		}
		require.True(t, bytes.Equal(first, file.Bytes()), "pieces of %d bytes", piece)
	}
	got, err := parquet.Read[row](bytes.NewReader(first), int64(len(first)))
	require.NoError(t, err)
	assert.Equal(t, want, got)

	file, err := parquet.OpenFile(bytes.NewReader(first), int64(len(first)))
	require.NoError(t, err)
	assert.Equal(t, []string{"head", "rank", "score"}, []string{
		file.Schema().Columns()[0][0], file.Schema().Columns()[1][0], file.Schema().Columns()[2][0],
	})
}

// Lines with missing or extra fields, fields that are not valid numbers, and a last line without a
// line feed are errors.
func TestBadLines(t *testing.T) {
	for _, line := range []string{"\n", "a\t1\n", "a\t1\t2\t3\n", "a\tx\t2\n", "a\t1\tx\n", "a\t3000000000\t2\n"} {
		_, err := NewWriter(&bytes.Buffer{}, columns).Write([]byte(line))
		assert.Error(t, err, "%q", line)
	}
	w := NewWriter(&bytes.Buffer{}, columns)
	_, err := w.Write([]byte("a\t1\t2"))
	require.NoError(t, err)
	assert.ErrorContains(t, w.Close(), "does not end")
}
