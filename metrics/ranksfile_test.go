package metrics

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

func readRanksText(text string) (*RanksFile, error) {
	return ReadRanks("r.tsv", strings.NewReader(text), math.MaxInt, kg.NewVocabulary(), kg.NewVocabulary())
}

func TestWriteRanks(t *testing.T) {
	g := familyGraph()
	var text bytes.Buffer
	both := []rank.Filter{rank.None, rank.All}
	require.NoError(t, WriteRanks(&text, g, RanksFile{Ranks: familyRanks(g)[3:6], Filters: both}))
	assert.Equal(t, `side	head	relation	tail	none_better	none_equal	all_better	all_equal
tail	cal	childOf	bob	0	0	1	0
head	bob	spouse	ann	0	1	0	0
head	cal	likes	ann	1	1	1	0
`, text.String())

	text.Reset()
	ranks := familyRanks(g)[3:4]
	ranks[0].Candidates = [rank.NumFilters]int32{9, 8, 7}
	ranks[0].CandidatesDigest = 0xbeef
	require.NoError(t, WriteRanks(&text, g, RanksFile{Ranks: ranks, Filters: both, Restricted: true}))
	assert.Equal(t, "side\thead\trelation\ttail\tnone_better\tnone_equal\tnone_candidates\tall_better\tall_equal\t"+
		"all_candidates\tcandidates_digest\ntail\tcal\tchildOf\tbob\t0\t0\t9\t1\t0\t7\t0000beef\n", text.String())

	text.Reset()
	tolerance := rank.Tolerance{Absolute: 1e-5, Relative: 1e-4}
	require.NoError(t, WriteRanks(&text, g, RanksFile{
		Ranks: ranks, Filters: both[1:], Restricted: true, Tolerance: tolerance,
	}))
	assert.Equal(t, "side\thead\trelation\ttail\tall_better\tall_equal\tall_candidates\tcandidates_digest\t"+
		"tolerance_absolute\ttolerance_relative\ntail\tcal\tchildOf\tbob\t1\t0\t7\t0000beef\t1e-05\t0.0001\n",
		text.String())
}

// Filters without columns in a ranks file give neither metrics nor a comparison nor a file.
func TestAbsentFilter(t *testing.T) {
	g := familyGraph()
	var text bytes.Buffer
	require.NoError(t, WriteRanks(&text, g, RanksFile{Ranks: familyRanks(g), Filters: []rank.Filter{rank.All}}))
	file, err := readRanksText(text.String())
	require.NoError(t, err)
	ranks := file.Ranks
	ks := []int{1, 1000}
	assert.Equal(t, Measure(familyRanks(g), rank.BothSides, rank.All, rank.Realistic, ks).MRR,
		Measure(ranks, rank.BothSides, rank.All, rank.Realistic, ks).MRR)
	for ties := range rank.NumTies {
		r := Measure(ranks, rank.BothSides, rank.None, ties, ks)
		assert.Equal(t, len(ranks), r.N)
		for _, v := range []Number{r.MRR, r.MR, r.Median, r.GMR, r.AMR, r.AMRI, r.Hits[0].Share, r.Hits[1].Share} {
			assert.True(t, math.IsNaN(float64(v)), "%v: %v", ties, r)
		}
	}

	const want = "rank 1 has no counts under filter none, as after reading a ranks file without its columns: " +
		"choose a filter of the file, or rank again"
	o := SummaryOptions{Sides: rank.BothSides, Filters: []rank.Filter{rank.All, rank.None}}
	_, _, err = Summarize(t.Context(), ranks, o)
	assert.EqualError(t, err, want)
	assert.EqualError(t, new(Report).Summarize(t.Context(), ranks, o), want)
	none := CompareOptions{Sides: rank.BothSides, Filter: rank.None}
	_, err = Compare(t.Context(), ranks, familyRanks(g), none)
	assert.EqualError(t, err, want)
	_, err = Compare(t.Context(), familyRanks(g), ranks, none)
	assert.EqualError(t, err, want)
	_, err = CompareAll(t.Context(), g, kg.Test, []ComparedCheckpoint{{Name: "read", Ranks: ranks}}, none)
	assert.EqualError(t, err, "checkpoint read: "+want)
	assert.EqualError(t, WriteRanks(io.Discard, g, RanksFile{Ranks: ranks, Filters: o.Filters}), want)
	sum := slices.Clone(ranks)
	require.NoError(t, rank.Add(sum, ranks))
	assert.Equal(t, [rank.NumFilters]int32{-1, -1, 2}, sum[1].Better)
	_, err = Compare(t.Context(), ranks, familyRanks(g), CompareOptions{Sides: rank.BothSides, Filter: rank.All})
	assert.NoError(t, err)
}

func TestRanksFileRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := someRanks(t)
		filters := rapid.SampledFrom(
			[][]rank.Filter{{rank.None}, {rank.Train, rank.All}, {rank.None, rank.Train, rank.All}},
		).Draw(
			t,
			"filters",
		)
		labels := rapid.SliceOfNDistinct(rapid.StringMatching(`[^\t\n]{1,12}`), 5, 5, rapid.ID).Draw(t, "labels")
		g := &kg.Graph{Entities: kg.NewVocabulary(labels...), Relations: kg.NewVocabulary("r0", "r1", "r2", "r3", "r4")}
		restricted := rapid.Bool().Draw(t, "restricted")
		tolerance := rank.Tolerance{}
		if len(ranks) > 0 && rapid.Bool().Draw(t, "tolerance") {
			tolerance.Absolute, tolerance.Relative = rapid.Float64Range(0, 1).Draw(t, "absolute"), 1e-4
		}
		for i := range ranks {
			if restricted {
				ranks[i].CandidatesDigest = rapid.Uint32().Draw(t, "digest")
			}
			// The file does not contain these.
			for f := range rank.NumFilters {
				if !restricted || !slices.Contains(filters, f) {
					ranks[i].Candidates[f] = 0
				}
				if !slices.Contains(filters, f) {
					ranks[i].Better[f], ranks[i].Equal[f] = -1, 0
				}
			}
		}
		want := &RanksFile{Ranks: ranks, Filters: filters, Restricted: restricted, Tolerance: tolerance}
		var file bytes.Buffer
		require.NoError(t, WriteRanks(&file, g, *want))
		for _, text := range []string{file.String(), strings.ReplaceAll(file.String(), "\n", "\r\n")} {
			entities, relations := kg.NewVocabulary(labels...), kg.NewVocabulary(g.Relations.Labels()...)
			got, err := ReadRanks("ranks.tsv", strings.NewReader(text), len(ranks), entities, relations)
			require.NoError(t, err)
			if len(ranks) == 0 {
				got.Ranks = ranks // nil or empty
			}
			require.Equal(t, want, got)
			require.Equal(t, 5, entities.Len())
		}
	})
}

// Editors on Windows put a byte order mark at the start of a file.
func TestReadRanksByteOrderMark(t *testing.T) {
	const text = "side\thead\trelation\ttail\tall_better\tall_equal\ntail\ta\tr\tb\t1\t0\n"
	want, err := readRanksText(text)
	require.NoError(t, err)
	got, err := readRanksText("\ufeff" + text)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	assert.Equal(t, []rank.Filter{rank.All}, got.Filters)
}

// A small compressed file can have millions of lines, so ReadRanks stops at the first rank too many.
func TestReadRanksLimit(t *testing.T) {
	const header, line = "side\thead\trelation\ttail\tall_better\tall_equal\n", "tail\ta\tr\tb\t1\t0\n"
	for most := range 3 {
		rest := strings.NewReader(strings.Repeat(line, 1<<18))
		file := io.MultiReader(strings.NewReader(header+strings.Repeat(line, most+1)), rest)
		_, err := ReadRanks("r.tsv", file, most, kg.NewVocabulary(), kg.NewVocabulary())
		assert.EqualError(t, err, fmt.Sprintf(
			"r.tsv:%d: the file has more than %s, so they are of other triples: rank the same split", most+2,
			[]string{"0 ranks", "1 rank", "2 ranks"}[most]))
		assert.Greater(t, rest.Len(), 1<<20, "the rest of the file was read")
	}
}

func TestReadRanksErrors(t *testing.T) {
	const (
		header     = "side\thead\trelation\ttail\tall_better\tall_equal\n"
		restricted = "side\thead\trelation\ttail\ttrain_better\ttrain_equal\ttrain_candidates\t" +
			"all_better\tall_equal\tall_candidates\n"
		withTolerance = "side\thead\trelation\ttail\tall_better\tall_equal\ttolerance_absolute\ttolerance_relative\n"
	)
	for _, c := range []struct{ text, want string }{
		{"", "r.tsv: the file is empty: a ranks file begins with the names of its columns"},
		{
			"side\thead\n",
			`r.tsv:1: the columns of a ranks file are side, head, relation, tail and two or three for each filter, ` +
				`not "side head"`,
		},
		{
			"side\thead\trelation\ttail\n",
			`r.tsv:1: the columns of a ranks file are side, head, relation, tail and two or three for each filter, ` +
				`not "side head relation tail"`,
		},
		{"side\thead\trelation\ttail\tall_better\tnone_equal\n",
			`r.tsv:1: column 6 is "none_equal", not all_equal`},
		{"side\thead\trelation\ttail\tall_better\tall_equal\tall_candidates\tnone_better\tnone_equal\tnone_size\n",
			`r.tsv:1: column 10 is "none_size", not none_candidates`},
		{"side\thead\trelation\ttail\tsome_better\tsome_equal\n",
			`r.tsv:1: column 5: unknown filter "some": choose none, train or all`},
		{strings.TrimSuffix(header, "\n") + "\tall_better\tall_equal\n", "r.tsv:1: column 7: filter all occurs twice"},
		{header + "tail\ta\tr\tb\t1\n", "r.tsv:2: the line has 5 fields separated by tabs, but the header has 6"},
		{"\n", "r.tsv: the file is empty: a ranks file begins with the names of its columns"},
		{"\n" + header, "r.tsv:1: blank line: remove it"},
		{header + "\r\ntail\ta\tr\tb\t1\t0\n", "r.tsv:2: blank line: remove it"},
		{header + "tail\ta\tr\tb\t1\t0\n\n\n", "r.tsv:3: blank line: remove it"},
		{header + "both\ta\tr\tb\t1\t0\n", `r.tsv:2: unknown side "both": a query's side is tail, head or relation`},
		{header + "head\ta\tr\tb\t1\t-1\n", `r.tsv:2: all_equal: "-1" is not a count of candidates (0 to 2147483647)`},
		{header + "head\ta\tr\tb\t2147483648\t0\n",
			`r.tsv:2: all_better: "2147483648" is not a count of candidates (0 to 2147483647)`},
		{header + "head\ta\t\tb\t1\t0\n", "r.tsv:2: the relation has no label"},
		{header + "head\ta\tr\tb\t2147483647\t0\nhead\ta\tr\tb\t2147483647\t1\n",
			"r.tsv:3: all_better and all_equal add up to 2147483648, more candidates than a graph can have " +
				"(2147483647)"},
		{restricted + "head\ta\tr\tb\t2\t3\t5\t1\t3\t4\nhead\ta\tr\tb\t2\t3\t5\t1\t3\t3\n",
			"r.tsv:3: all_better and all_equal add up to 4, but all_candidates is 3"},
		{strings.TrimSuffix(restricted, "\n") + "\tcandidates_digest\nhead\ta\tr\tb\t1\t0\t5\t1\t0\t5\tx\n",
			`r.tsv:2: candidates_digest: "x" is not a number of up to eight hexadecimal digits`},
		{withTolerance + "head\ta\tr\tb\t1\t0\t1e-5\n",
			"r.tsv:2: the line has 7 fields separated by tabs, but the header has 8"},
		{withTolerance + "head\ta\tr\tb\t1\t0\t1e-5\tNaN\n",
			`r.tsv:2: tolerance_relative: "NaN" is not a finite number of at least 0`},
		{withTolerance + "head\ta\tr\tb\t1\t0\t-1\t0\n",
			`r.tsv:2: tolerance_absolute: "-1" is not a finite number of at least 0`},
		{withTolerance + "head\ta\tr\tb\t1\t0\t1\t0\nhead\ta\tr\tb\t1\t0\t0\t1\n",
			"r.tsv:3: the tolerance differs from the previous line: rank all queries with the same"},
		{restricted + "head\ta\tr\tb\t1\t0\t5\t2\t0\t5\n",
			"r.tsv:2: all_better: 2 is more than train_better, which is 1, but filter all removes more candidates"},
		{restricted + "head\ta\tr\tb\t2\t1\t5\t2\t2\t5\n",
			"r.tsv:2: all_equal: 2 is more than train_equal, which is 1, but filter all removes more candidates"},
		{restricted + "head\ta\tr\tb\t2\t1\t5\t2\t1\t6\n",
			"r.tsv:2: all_candidates: 6 is more than train_candidates, which is 5, " +
				"but filter all removes more candidates"},
		{
			strings.TrimSuffix(header, "\n") + "\tnone_better\tnone_equal\nhead\ta\tr\tb\t2\t0\t1\t0\n",
			"r.tsv:2: all_better: 2 is more than none_better, which is 1, but filter all removes more candidates",
		},
		{
			header + "head\ta\tr\tb\t1\t10",
			"r.tsv:2: the last line has no line break: the file was cut off, write it again",
		},
		{header + strings.Repeat("x", maxRanksLine+1),
			"r.tsv:2: the line is longer than 1048576 bytes: this is not a ranks file"},
	} {
		_, err := readRanksText(c.text)
		assert.EqualError(t, err, c.want)
	}
	cut := io.MultiReader(strings.NewReader(header+"tail\ta\tr\tb\t1\t0\n"), iotest.ErrReader(io.ErrUnexpectedEOF))
	_, err := ReadRanks("r.tsv.gz", cut, math.MaxInt, kg.NewVocabulary(), kg.NewVocabulary())
	assert.EqualError(t, err, "r.tsv.gz:3: cannot read any further (unexpected EOF): the file may be damaged or "+
		"truncated; write it again")
	for _, end := range []string{"\n", "\r\n"} {
		file, err := readRanksText(header + "tail\ta\tr\tb\t1\t0\n" + end)
		require.NoError(t, err)
		assert.Len(t, file.Ranks, 1, "a blank last line is not a rank")
	}
}

func TestWriteRanksRejectsSeparators(t *testing.T) {
	for _, label := range []string{"a\tb", "a\nb"} {
		g := &kg.Graph{Entities: kg.NewVocabulary("ok", label), Relations: kg.NewVocabulary("r")}
		ranks := []rank.Rank{{}, {Triple: kg.Triple{Tail: 1}}}
		err := WriteRanks(io.Discard, g, RanksFile{Ranks: ranks, Filters: []rank.Filter{rank.All}})
		assert.ErrorContains(t, err, fmt.Sprintf("the label %q has a tab or a line break", label))
	}
}

func TestWriteRanksRefuses(t *testing.T) {
	g := familyGraph()
	exact, all := familyRanks(g), []rank.Filter{rank.All}
	estimates := slices.Clone(exact)
	estimates[1].Scale = 2
	for want, c := range map[string]struct {
		filters []rank.Filter
		ranks   []rank.Rank
	}{
		"a ranks file needs columns of counts: give at least one filter": {nil, exact},
		"filter all occurs twice in a ranks file: give it once":          {append(all, rank.None, rank.All), exact},
		"Filter(3) is not a filter: choose none, train or all":           {[]rank.Filter{3}, exact},
		"rank 2 is an estimate from a sample, which a ranks file cannot hold: " +
			"write the ranks before Sample.Scale, or rank among all candidates": {all, estimates},
	} {
		var file bytes.Buffer
		content := RanksFile{Ranks: c.ranks, Filters: c.filters, Restricted: true}
		assert.EqualError(t, WriteRanks(&file, g, content), want)
		assert.Empty(t, file.String())
	}
}

func FuzzReadRanks(f *testing.F) {
	g := familyGraph()
	var file bytes.Buffer
	require.NoError(f, WriteRanks(&file, g, RanksFile{
		Ranks: familyRanks(g), Filters: []rank.Filter{rank.None, rank.Train},
		Tolerance: rank.Tolerance{Relative: 1e-4},
	}))
	f.Add(file.Bytes())
	f.Add([]byte("side\thead\trelation\ttail\tall_better\tall_equal\r\ntail\ta\tr\tb\t1\t0\r\n"))
	f.Add([]byte("side\thead\trelation\ttail\tall_better\tall_equal\ntail\ta\tr\tb\t1\t0"))
	f.Fuzz(func(t *testing.T, text []byte) {
		read := &kg.Graph{Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
		file, err := ReadRanks("fuzz", bytes.NewReader(text), math.MaxInt, read.Entities, read.Relations)
		if err != nil {
			return
		}
		// Writing what ReadRanks returned, and reading it again, gives the same.
		var again bytes.Buffer
		require.NoError(t, WriteRanks(&again, read, *file))
		fileAgain, err := ReadRanks("fuzz", &again, len(file.Ranks), read.Entities, read.Relations)
		require.NoError(t, err)
		require.Equal(t, file, fileAgain)
	})
}
