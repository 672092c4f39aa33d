package lint

import (
	_ "embed"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

//go:embed phrases.txt
var phraseList string

// phrase is a line of phrases.txt.
type phrase struct {
	pattern *regexp.Regexp
	better  string
	unless  *regexp.Regexp // nil without exceptions
}

// phrases parses phrases.txt.
func phrases(t *testing.T) []phrase {
	var list []phrase
	for i, line := range strings.Split(phraseList, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(line, "\t")
		require.GreaterOrEqual(t, len(columns), 2, "phrases.txt:%d: want a pattern, a tab and better words", i+1)
		p := phrase{pattern: words(columns[0]), better: columns[1]}
		if len(columns) > 2 && columns[2] != "" {
			p.unless = words(columns[2])
		}
		list = append(list, p)
	}
	return list
}

// words compiles a pattern so that it matches whole words, ignoring case. A space matches any white
// space.
func words(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:` + strings.ReplaceAll(pattern, " ", `\s+`) + `)(?:\b|$|\W)`)
}

// find returns the places where the phrase occurs in a text.
func (p phrase) find(text string) [][]int {
	places := p.pattern.FindAllStringIndex(text, -1)
	if places == nil || p.unless == nil {
		return places
	}
	var kept [][]int
	right := p.unless.FindAllStringIndex(text, -1)
next:
	for _, at := range places {
		for _, r := range right {
			if r[0] <= at[0] && at[1]-1 <= r[1] {
				continue next
			}
		}
		kept = append(kept, at)
	}
	return kept
}

// passage is running text whose lines are joined, so phrases are found across line breaks.
type passage struct {
	text  strings.Builder
	marks []mark
}

// mark is the offset in a passage at which a line of the file begins.
type mark struct{ offset, line int }

// add appends a line of the file.
func (p *passage) add(line int, text string) {
	p.marks = append(p.marks, mark{p.text.Len(), line})
	p.text.WriteString(text)
	p.text.WriteByte('\n')
}

// line returns the line of the file for an offset in the passage.
func (p *passage) line(offset int) int {
	i := sort.Search(len(p.marks), func(i int) bool { return p.marks[i].offset > offset })
	return p.marks[i-1].line
}

func TestPhrases(t *testing.T) {
	list := phrases(t)
	var found failures
	for _, f := range sources(t, ".go", ".md", ".sh", ".yaml", ".html", ".cu", ".cuh", ".py",
		"Makefile", ".ci/run", "scripts/gpu-check") {
		if f.name == "internal/lint/phrases_test.go" { // contains examples
			continue
		}
		for _, p := range passages(t, f) {
			for _, phrase := range list {
				for _, at := range phrase.find(p.text.String()) {
					text := strings.Join(strings.Fields(p.text.String()[at[0]:at[1]]), " ")
					found.add(f.name, p.line(at[0]), "%q: %s", text, phrase.better)
				}
			}
		}
	}
	found.report(t)
}

// passages returns the running text of a file.
func passages(t *testing.T, f file) []*passage {
	switch {
	case f.generated():
		return nil // the text is in the generator
	case f.is(".go"):
		return goPassages(t, f)
	case f.is(".md"):
		return paragraphs(f.lines(), func(line string) (string, bool) {
			return codeSpan.ReplaceAllString(line, "`code`"), strings.TrimSpace(line) != ""
		})
	case f.is(".html"):
		return paragraphs(f.lines(), func(line string) (string, bool) { return line, true })
	case f.is(".cu", ".cuh"):
		return paragraphs(f.lines(), func(line string) (string, bool) {
			_, comment, ok := strings.Cut(line, "//")
			return comment, ok
		})
	}
	// In scripts, a comment may continue over several lines. Other lines may print text.
	return paragraphs(f.lines(), func(line string) (string, bool) {
		comment, ok := strings.CutPrefix(strings.TrimSpace(line), "#")
		if !ok {
			comment = line + " ¶"
		}
		return comment, strings.TrimSpace(line) != ""
	})
}

// codeSpan matches code within a line of Markdown.
var codeSpan = regexp.MustCompile("`[^`]*`")

// paragraphs joins the lines of each paragraph. content returns the text of a line, or false if the
// line does not belong to a paragraph.
func paragraphs(lines []string, content func(line string) (string, bool)) []*passage {
	var list []*passage
	inside := false
	for i, line := range lines {
		text, ok := content(line)
		if ok && !inside {
			list = append(list, &passage{})
		}
		if inside = ok; ok {
			list[len(list)-1].add(i+1, text)
		}
	}
	return list
}

// goPassages returns the comments and strings of a Go file. Concatenated strings are one passage.
func goPassages(t *testing.T, f file) []*passage {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, f.name, f.text, parser.ParseComments)
	require.NoError(t, err)
	var list []*passage
	for _, group := range parsed.Comments {
		p := &passage{}
		for _, comment := range group.List {
			for i, text := range strings.Split(comment.Text, "\n") {
				p.add(set.Position(comment.Pos()).Line+i, strings.TrimPrefix(text, "//"))
			}
		}
		list = append(list, p)
	}
	add := func(p *passage, literal *ast.BasicLit) {
		value, err := strconv.Unquote(literal.Value)
		require.NoError(t, err)
		first := set.Position(literal.Pos()).Line
		if !strings.HasPrefix(literal.Value, "`") {
			p.marks = append(p.marks, mark{p.text.Len(), first})
			p.text.WriteString(value)
			return
		}
		for i, text := range strings.Split(value, "\n") {
			p.add(first+i, text)
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				p := &passage{}
				add(p, n)
				list = append(list, p)
			}
		case *ast.BinaryExpr:
			if n.Op != token.ADD {
				return true
			}
			p := &passage{}
			for _, operand := range operands(n) {
				literal, ok := operand.(*ast.BasicLit)
				switch {
				case ok && literal.Kind == token.STRING:
					add(p, literal)
				case p.text.Len() > 0:
					p.text.WriteString("…")
				}
			}
			if p.text.Len() > 0 {
				list = append(list, p)
				return false
			}
		}
		return true
	})
	return list
}

// operands lists the operands of a concatenation.
func operands(e ast.Expr) []ast.Expr {
	if sum, ok := e.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
		return append(operands(sum.X), operands(sum.Y)...)
	}
	return []ast.Expr{e}
}

// Phrases are found across lines and in any case, but not in the text that the third column
// excepts.
func TestPhraseList(t *testing.T) {
	list := phrases(t)
	find := func(name, text string) []string {
		var lines []string
		for _, p := range passages(t, file{name, []byte(text)}) {
			for _, phrase := range list {
				for _, at := range phrase.find(p.text.String()) {
					lines = append(lines, strconv.Itoa(p.line(at[0])))
				}
			}
		}
		return lines
	}
	assert.ElementsMatch(t, []string{"2"}, find("a.md", "The norm is smaller than\n*that\nof* the query."))
	assert.ElementsMatch(t, []string{"1", "2"}, find("a.md", "Made anew.\nWhoever reads `in force` errs."))
	assert.ElementsMatch(t, []string{"2", "4"},
		find("a.go", "package a\n// A is that\n// of B.\nconst A = \"is \" + \"no file\"\n"))
	assert.ElementsMatch(t, []string{"1"}, find("Makefile", "# comes\n# to"))
	assert.Empty(t, find("a.md", "There is no file. It is no longer here. Anewer, reweathered: `that of`."))
}
