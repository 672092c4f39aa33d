package metrics

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mquine/mquine/internal/compressed"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// A ranks file has one line for each query, with fields separated by tabs. The first line names the
// fields: side, head, relation, tail and, for each filter, <filter>_better and <filter>_equal, the
// counts of rank.Rank. If the candidates are restricted, <filter>_candidates follows, and
// candidates_digest after all filters. If scores within a tolerance count as equal, the last two columns
// are tolerance_absolute and tolerance_relative, with the same numbers in each line. Files of earlier
// versions lack the digest and the tolerance.
var queryColumns = []string{"side", "head", "relation", "tail"}

// digestColumn has eight hexadecimal digits, which differ between queries with different candidates. 0 is
// unknown.
const digestColumn = "candidates_digest"

// toleranceColumns have the numbers of a rank.Tolerance.
var toleranceColumns = []string{"tolerance_absolute", "tolerance_relative"}

// maxRanksLine bounds the length of a line, in bytes. A file that is not a ranks file therefore
// cannot fill the memory.
const maxRanksLine = 1 << 20

// RanksFile is the content of a ranks file.
type RanksFile struct {
	Ranks []rank.Rank // in the order of the lines
	// Filters are the filters with columns of counts.
	Filters []rank.Filter
	// Restricted says that not every entity is a candidate. The file then also has the columns of
	// Rank.Candidates and Rank.CandidatesDigest.
	Restricted bool
	// Tolerance is the tolerance of the ranks, which has columns unless it is zero.
	Tolerance rank.Tolerance
}

// WriteRanks writes the ranks of queries of g.
//
// WriteRanks returns an error if a file has no filters or an unknown or repeated one, if a label has a
// tab or a line break, if a rank has no counts under a filter, or if a rank is an estimate (Rank.Scale),
// which a ranks file would present as exact.
func WriteRanks(w io.Writer, g *kg.Graph, file RanksFile) error {
	if err := checkRanks(file.Filters, file.Ranks); err != nil {
		return err
	}
	line := []byte(strings.Join(queryColumns, "\t"))
	for _, f := range file.Filters {
		line = fmt.Appendf(line, "\t%v_better\t%v_equal", f, f)
		if file.Restricted {
			line = fmt.Appendf(line, "\t%v_candidates", f)
		}
	}
	if file.Restricted {
		line = append(line, "\t"+digestColumn...)
	}
	if file.Tolerance != (rank.Tolerance{}) {
		line = append(line, "\t"+strings.Join(toleranceColumns, "\t")...)
	}
	if _, err := w.Write(append(line, '\n')); err != nil {
		return err
	}
	for i := range file.Ranks {
		r := &file.Ranks[i]
		line = append(line[:0], r.Side.String()...)
		for _, label := range []string{
			g.Entities.Label(r.Triple.Head), g.Relations.Label(r.Triple.Relation), g.Entities.Label(r.Triple.Tail),
		} {
			if strings.ContainsAny(label, "\t\n") {
				return fmt.Errorf(
					"the label %q has a tab or a line break, which a ranks file cannot hold: rename it", label)
			}
			line = append(line, '\t')
			line = append(line, label...)
		}
		for _, f := range file.Filters {
			line = append(line, '\t')
			line = strconv.AppendInt(line, int64(r.Better[f]), 10)
			line = append(line, '\t')
			line = strconv.AppendInt(line, int64(r.Equal[f]), 10)
			if file.Restricted {
				line = append(line, '\t')
				line = strconv.AppendInt(line, int64(r.Candidates[f]), 10)
			}
		}
		if file.Restricted {
			line = fmt.Appendf(line, "\t%08x", r.CandidatesDigest)
		}
		if file.Tolerance != (rank.Tolerance{}) {
			line = fmt.Appendf(line, "\t%v\t%v", file.Tolerance.Absolute, file.Tolerance.Relative)
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// checkRanks returns an error if a ranks file cannot hold ranks under the given filters.
func checkRanks(filters []rank.Filter, ranks []rank.Rank) error {
	if len(filters) == 0 {
		return errors.New("a ranks file needs columns of counts: give at least one filter")
	}
	if err := checkFilters(filters); err != nil {
		return err
	}
	for i, f := range filters {
		if slices.Contains(filters[:i], f) {
			return fmt.Errorf("filter %v occurs twice in a ranks file: give it once", f)
		}
	}
	if i := slices.IndexFunc(ranks, func(r rank.Rank) bool { return r.Scale != 0 }); i >= 0 {
		return fmt.Errorf("rank %d is an estimate from a sample, which a ranks file cannot hold: "+
			"write the ranks before Sample.Scale, or rank among all candidates", i+1)
	}
	return checkCounted(ranks, filters)
}

// ReadRanks reads a ranks file. name is for error messages.
//
// ReadRanks adds new labels to the two vocabularies. Start with empty vocabularies. To read a
// second file with the same identifiers, pass the same vocabularies again. Under filters without columns,
// Rank.Better is −1: Measure then returns NaN, and Summarize and Compare return an error. A file with more
// than most ranks is an error, which ReadRanks returns before it reads the rest.
func ReadRanks(name string, r io.Reader, most int, entities, relations *kg.Vocabulary) (*RanksFile, error) {
	in := bufio.NewReaderSize(r, maxRanksLine)
	header, err := readRanksLine(in)
	if err == io.EOF {
		return nil, fmt.Errorf("%s: the file is empty: a ranks file begins with the names of its columns", name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s:1: %w", name, err)
	}
	header[0] = strings.TrimPrefix(header[0], "\ufeff") // a byte order mark
	columns, err := parseRanksHeader(header)
	if err != nil {
		return nil, fmt.Errorf("%s:1: %w", name, err)
	}
	file := &RanksFile{Filters: columns.filters, Restricted: columns.restricted()}
	for number := 2; ; number++ {
		fields, err := readRanksLine(in)
		if err == io.EOF {
			return file, nil
		}
		if err == nil {
			err = file.add(fields, most, columns, entities, relations)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
	}
}

// add adds the rank in a line.
func (f *RanksFile) add(fields []string, most int, c ranksColumns, entities, relations *kg.Vocabulary) error {
	if len(f.Ranks) == most {
		return fmt.Errorf("the file has more than %s, so they are of other triples: rank the same split",
			text.Plural(most, "rank"))
	}
	r, err := c.parse(fields, entities, relations)
	if err != nil {
		return err
	}
	if c.tolerance {
		t, err := parseTolerance(fields[len(fields)-len(toleranceColumns):])
		if err != nil {
			return err
		}
		if f.Ranks != nil && t != f.Tolerance {
			return errors.New("the tolerance differs from the previous line: rank all queries with the same")
		}
		f.Tolerance = t
	}
	f.Ranks = append(f.Ranks, r)
	return nil
}

// readRanksLine returns the fields of the next line, or io.EOF after the last. A blank line is an error
// unless it is the last line.
func readRanksLine(in *bufio.Reader) ([]string, error) {
	line, err := in.ReadSlice('\n')
	switch {
	case err == io.EOF && len(line) > 0:
		return nil, errors.New("the last line has no line break: the file was cut off, write it again")
	case err == bufio.ErrBufferFull:
		return nil, fmt.Errorf("the line is longer than %d bytes: this is not a ranks file", maxRanksLine)
	case err == io.EOF:
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("cannot read any further (%w): the file may be damaged or truncated; write it again",
			compressed.UnexpectedEnd(text.Cause(err)))
	}
	line = bytes.TrimSuffix(line[:len(line)-1], []byte{'\r'})
	if len(line) == 0 {
		if _, err := in.Peek(1); err != nil {
			return nil, err
		}
		return nil, errors.New("blank line: remove it")
	}
	return strings.Split(string(line), "\t"), nil
}

// countColumns are the columns of a filter. The last column is optional.
var countColumns = []string{"better", "equal", "candidates"}

// ranksColumns describes the columns of a ranks file after the query.
type ranksColumns struct {
	filters []rank.Filter
	counts  int // columns of each filter
	digest  bool
	// tolerance says that the last columns are toleranceColumns.
	tolerance bool
}

// restricted reports whether there are columns with numbers of candidates.
func (c ranksColumns) restricted() bool { return c.counts == len(countColumns) }

func parseRanksHeader(columns []string) (c ranksColumns, err error) {
	n := len(queryColumns)
	c.counts = 2
	if i := len(columns) - len(toleranceColumns); i >= n && slices.Equal(columns[i:], toleranceColumns) {
		c.tolerance, columns = true, columns[:i]
	}
	if len(columns) > n+2 && strings.HasSuffix(columns[n+2], "_"+countColumns[2]) {
		c.counts = 3
		if last := len(columns) - 1; columns[last] == digestColumn {
			c.digest, columns = true, columns[:last]
		}
	}
	if len(columns) < n+2 || (len(columns)-n)%c.counts != 0 || !slices.Equal(columns[:n], queryColumns) {
		return c, fmt.Errorf(
			"the columns of a ranks file are side, head, relation, tail and two or three for each filter, not %.100q",
			strings.Join(columns, " "))
	}
	for i := n; i < len(columns); i += c.counts {
		filter, _, _ := strings.Cut(columns[i], "_")
		for k, column := range columns[i : i+c.counts] {
			if want := filter + "_" + countColumns[k]; column != want {
				return c, fmt.Errorf("column %d is %.40q, not %.40s", i+k+1, column, want)
			}
		}
		f, err := rank.ParseFilter(filter)
		if err != nil {
			return c, fmt.Errorf("column %d: %w", i+1, err)
		}
		if slices.Contains(c.filters, f) {
			return c, fmt.Errorf("column %d: filter %v occurs twice", i+1, f)
		}
		c.filters = append(c.filters, f)
	}
	return c, nil
}

// parse returns the rank in a line, and adds its labels to the vocabularies.
func (c ranksColumns) parse(fields []string, entities, relations *kg.Vocabulary) (rank.Rank, error) {
	want := len(queryColumns) + c.counts*len(c.filters)
	if c.digest {
		want++
	}
	if c.tolerance {
		want += len(toleranceColumns)
	}
	if len(fields) != want {
		return rank.Rank{}, fmt.Errorf("the line has %s separated by tabs, but the header has %d",
			text.Plural(len(fields), "field"), want)
	}
	if c.tolerance {
		fields = fields[:want-len(toleranceColumns)]
	}
	var r rank.Rank
	switch fields[0] {
	case kg.Tail.String():
		r.Side = kg.Tail
	case kg.Head.String():
		r.Side = kg.Head
	case kg.Relation.String():
		r.Side = kg.Relation
	default:
		return rank.Rank{}, fmt.Errorf("unknown side %.40q: a query's side is tail, head or relation", fields[0])
	}
	for f := range r.Better {
		r.Better[f] = -1
	}
	for i, f := range c.filters {
		into := [...]*int32{&r.Better[f], &r.Equal[f], &r.Candidates[f]}
		for k, field := range fields[len(queryColumns)+c.counts*i:][:c.counts] {
			var err error
			if *into[k], err = parseCount(field); err != nil {
				return rank.Rank{}, fmt.Errorf("%v_%s: %w", f, countColumns[k], err)
			}
		}
	}
	if err := checkCounts(&r, c.filters, c.restricted()); err != nil {
		return rank.Rank{}, err
	}
	if c.digest {
		last := fields[len(fields)-1]
		digest, err := strconv.ParseUint(last, 16, 32)
		if err != nil {
			return rank.Rank{}, fmt.Errorf("%s: %.40q is not a number of up to eight hexadecimal digits",
				digestColumn, last)
		}
		r.CandidatesDigest = uint32(digest)
	}
	for i, name := range queryColumns[1:] {
		if fields[1+i] == "" {
			return rank.Rank{}, fmt.Errorf("the %s has no label", name)
		}
	}
	head, relation, tail := entities.Add(fields[1]), relations.Add(fields[2]), entities.Add(fields[3])
	r.Triple = kg.Triple{Head: head, Relation: relation, Tail: tail}
	return r, nil
}

// checkCounts returns an error if no ranking can have the counts of r. restricted says that r has the
// numbers of candidates.
func checkCounts(r *rank.Rank, filters []rank.Filter, restricted bool) error {
	for i, f := range filters {
		others := int64(r.Better[f]) + int64(r.Equal[f])
		switch {
		case restricted && others > int64(r.Candidates[f]):
			return fmt.Errorf("%v_better and %[1]v_equal add up to %d, but %[1]v_candidates is %[3]d",
				f, others, r.Candidates[f])
		case others > math.MaxInt32:
			return fmt.Errorf("%v_better and %[1]v_equal add up to %d, more candidates than a graph can have (%d)",
				f, others, math.MaxInt32)
		}
		for _, g := range filters[:i] {
			less, more := min(f, g), max(f, g) // more removes all answers that less removes
			for k, of := range [][rank.NumFilters]int32{r.Better, r.Equal, r.Candidates} {
				if of[more] > of[less] {
					return fmt.Errorf(
						"%v_%s: %d is more than %v_%[2]s, which is %[5]d, but filter %[1]v removes more candidates",
						more, countColumns[k], of[more], less, of[less])
				}
			}
		}
	}
	return nil
}

// parseTolerance parses the fields of toleranceColumns.
func parseTolerance(fields []string) (t rank.Tolerance, err error) {
	for i, into := range []*float64{&t.Absolute, &t.Relative} {
		*into, err = strconv.ParseFloat(fields[i], 64)
		if err != nil || !(*into >= 0) || math.IsInf(*into, 0) {
			return t, fmt.Errorf("%s: %.40q is not a finite number of at least 0", toleranceColumns[i], fields[i])
		}
	}
	return t, nil
}

func parseCount(field string) (int32, error) {
	n, err := strconv.ParseUint(field, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a count of candidates (0 to %d)", field, math.MaxInt32)
	}
	return int32(n), nil
}
