package text

import (
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// strangeTable has labels that formats must escape, negative numbers and a cell that stands out.
func strangeTable() *Table {
	t := NewTable(2)
	t.Title = "100% of a_b"
	t.AppendHeader([]any{"a_b", "n [95% CI]"})
	t.AppendRow([]any{`[x] 5% & $\{}#~^<>|`, Best("-0.5 [-1, -0.25]")})
	t.AppendRow([]any{"a\n\\input{x}\x1b\t\"q\"", "-"})
	t.AppendRow([]any{"* e → x", "1e-5"})
	return t
}

func TestTableInLaTeX(t *testing.T) {
	assert.Equal(t, `\begin{table}
\centering
\caption{100\% of a\_b}
\begin{tabular}{lr}
\toprule
a\_b & n [95\% CI] \\
\midrule
{}[x] 5\% \& \$\textbackslash{}\{\}\#\textasciitilde{}\textasciicircum{}$<$$>$$|$ & `+
		`\textbf{$-$0.5 [$-$1, $-$0.25]} \\
a\textbackslash{}n\textbackslash{}input\{x\}\textbackslash{}x1b\textbackslash{}t`+
		`\texttt{\symbol{34}}q\texttt{\symbol{34}} & - \\
{}* e $\to$ x & 1e-5 \\
\bottomrule
\end{tabular}
\end{table}
`, strangeTable().LaTeX())
}

// TestLaTeXCompiles compiles a table if there is a compiler. Otherwise it checks braces and columns.
func TestLaTeXCompiles(t *testing.T) {
	table := strangeTable().LaTeX()
	if compiler, err := exec.LookPath("pdflatex"); err == nil {
		dir := t.TempDir()
		document := "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n" + table +
			"\\end{document}\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "t.tex"), []byte(document), 0o644))
		cmd := exec.Command(compiler, "-interaction=nonstopmode", "-halt-on-error", "t.tex")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return
	}
	t.Log("there is no pdflatex: the test checks only the structure")
	plain := regexp.MustCompile(`\\[&%$#_{}]`).ReplaceAllString(table, "")
	depth := 0
	for _, c := range plain {
		depth += map[rune]int{'{': 1, '}': -1}[c]
		require.GreaterOrEqual(t, depth, 0)
	}
	require.Zero(t, depth)
	require.Zero(t, strings.Count(plain, "$")%2)
	require.NotRegexp(t, `[#%_]`, plain)
	rows := 0
	for line := range strings.Lines(plain) {
		if strings.HasSuffix(line, "\\\\\n") {
			require.Equal(t, 1, strings.Count(line, "&"), line)
			rows++
		}
	}
	require.Equal(t, 4, rows)
}

// TeX prints quotes and hyphens of labels unchanged, and joins no characters.
func TestLaTeXQuotes(t *testing.T) {
	table := NewTable()
	table.Caption = "A caption"
	table.AppendRow([]any{"a---b `c` \"d\" ''e'' f,,g 1–2"})
	assert.Contains(t, table.LaTeX(), `a-{}-{}-b \textasciigrave{}c\textasciigrave{} `+
		`\texttt{\symbol{34}}d\texttt{\symbol{34}} '{}'e'{}' f,{},g 1--2 \\`+"\n")
	assert.Contains(t, table.LaTeX(), "\\caption{A caption}\n")
	table.Title = "A title"
	assert.Contains(t, table.LaTeX(), "\\caption{A title. A caption}\n")
	assert.NotContains(t, table.Render(), "caption")
}

func TestTableInMarkdownStandsOut(t *testing.T) {
	assert.Contains(t, strangeTable().Markdown(), "| **−0.5 [−1, −0.25]** |\n")
	assert.Contains(t, strangeTable().Markdown(), "| 1e-5 |\n", "an exponent keeps its hyphen")
}

// Programs read the labels exactly.
func TestWriteRecords(t *testing.T) {
	rows := [][]string{Fields(`"x"`, 1), Fields("NA", -0.5), Fields("a,b", "c")}
	var out strings.Builder
	require.NoError(t, WriteRecords(&out, FormatCSV, []string{"a", "b"}, slices.Values(rows)))
	records, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	require.NoError(t, err)
	assert.Equal(t, [][]string{{"a", "b"}, {`"x"`, "1"}, {"NA", "-0.5"}, {"a,b", "c"}}, records)

	out.Reset()
	require.NoError(t, WriteRecords(&out, FormatTSV, []string{"a", "b"}, slices.Values(rows)))
	assert.Equal(t, "a\tb\n\"x\"\t1\nNA\t-0.5\na,b\tc\n", out.String())
	many := slices.Values(slices.Repeat(rows, 10_000))
	for _, f := range []Format{FormatCSV, FormatTSV} {
		assert.Error(t, WriteRecords(failing{}, f, nil, slices.Values(rows)))
		assert.Error(t, WriteRecords(failing{}, f, nil, many))
	}
}

func TestTableWithoutHeader(t *testing.T) {
	table := NewTable()
	table.AppendRow([]any{"a", "b"})
	assert.Equal(t, "|  |  |\n| --- | --- |\n| a | b |\n", table.Markdown())
	assert.NotContains(t, table.LaTeX(), `\midrule`)
	assert.Contains(t, table.LaTeX(), `{ll}`)
}

// On a narrow terminal, a table shortens labels but neither numbers, names of columns nor whole cells.
// It fits if its columns can become narrow enough. Otherwise its width does not change.
func TestTableFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(30, 200).Draw(t, "width")
		label := rapid.StringMatching(`[a-z/漢]{0,90}`)
		table := NewTable(2)
		heading := rapid.SampledFrom([]string{"label", "a long name of a column"}).Draw(t, "heading")
		whole := rapid.SampledFrom([]string{"", "… 14,505 more"}).Draw(t, "whole")
		table.AppendHeader([]any{"by", "n", heading})
		table.AppendRow([]any{Whole(whole), "", ""})
		rows := rapid.IntRange(1, 5).Draw(t, "rows")
		for range rows {
			table.AppendRow([]any{label.Draw(t, "by"), "0.1234", label.Draw(t, "label")})
		}
		out := table.render(width, func(s string) string { return s })
		require.Contains(t, out, heading)
		require.Contains(t, out, whole)
		require.Equal(t, rows, strings.Count(out, "0.1234"))
		if complete := table.Render(); out != complete {
			require.Greater(t, widest(complete), width)
			require.LessOrEqual(t, widest(out), width)
		} else if widest(complete) > width {
			require.Less(t, width, max(8, utf8.RuneCountInString(whole))+gap+len("0.1234")+gap+max(8, len(heading)))
		}
	})
}

// widest returns the width of the widest line.
func widest(lines string) (n int) {
	for line := range strings.Lines(lines) {
		n = max(n, text.StringWidthWithoutEscSequences(strings.TrimSuffix(line, "\n")))
	}
	return n
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		line string
		most int
		want string
	}{
		{"short", 5, "short"},
		{"abcdefghij", 9, "ab…efghij"},
		{"/people/person/nationality", 16, "/peop…ationality"},
		{"漢字漢字漢字", 7, "漢…漢字"},
	} {
		got := shorten(c.line, c.most)
		assert.Equal(t, c.want, got)
		assert.LessOrEqual(t, text.StringWidthWithoutEscSequences(got), c.most)
	}
}

func TestTableWriteErrors(t *testing.T) {
	for _, f := range []Format{FormatTable, FormatMarkdown, FormatLaTeX} {
		assert.Error(t, strangeTable().Write(failing{}, f), f)
	}
}

func TestLongTitlesWrap(t *testing.T) {
	table := NewTable()
	table.Title = strings.Repeat("a long title ", 10) + "ends"
	table.AppendRow([]any{"x"})
	var out strings.Builder
	require.NoError(t, table.Write(&out, FormatTable))
	for line := range strings.Lines(out.String()) {
		assert.LessOrEqual(t, len(line), lineWidth+1)
		assert.NotContains(t, line, " \n")
	}
}
