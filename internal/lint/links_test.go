package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// history is a folder of dated documents, whose references may be out of date.
const history = "docs/log/"

var (
	inlineLink    = regexp.MustCompile(`\]\(([^()\s]+)(?:\s+"[^"]*")?\)`)
	referenceLink = regexp.MustCompile(`^\s*\[[^\]]+\]:\s+(\S+)`)
	spans         = regexp.MustCompile("`([^`]+)`")
	heading       = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	sectionNumber = regexp.MustCompile(`\b[\w/-]+\.md,\s+sections?\s+\d+`)
	documentLink  = regexp.MustCompile(`\b(docs/[\w/-]+\.md)(?:[,:]?\s+["“]([^"”]+)["”])?`)
)

// Links in Markdown lead to files that exist and to headings in those files.
func TestLinksResolve(t *testing.T) {
	var found failures
	every := sources(t)
	files := map[string]bool{}
	for _, f := range every {
		for name := f.name; name != "."; name = path.Dir(name) {
			files[name] = true
		}
	}
	documents := sources(t, ".md")
	anchors := map[string][]string{}
	for _, f := range documents {
		anchors[f.name] = anchorsOf(f)
	}
	for _, f := range documents {
		if strings.HasPrefix(f.name, history) {
			continue
		}
		for _, line := range prose(f) {
			for _, link := range linksOf(line.text) {
				if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
					continue
				}
				reference, anchor, _ := strings.Cut(link, "#")
				target := resolve(f.name, reference)
				switch {
				case !files[target]:
					found.add(f.name, line.number, "(%s) leads to no file", link)
				case anchor != "" && strings.HasSuffix(target, ".md") && !slices.Contains(anchors[target], anchor):
					found.add(f.name, line.number, "(%s): %s has no such heading", link, target)
				}
			}
		}
	}
	found.report(t)
}

// linksOf returns the targets of the links in a line of Markdown.
func linksOf(text string) []string {
	text = codeSpan.ReplaceAllStringFunc(text, func(code string) string {
		return strings.Repeat("`", len(code)) // the text of a link may be code, but code does not contain links
	})
	var links []string
	for _, m := range inlineLink.FindAllStringSubmatch(text, -1) {
		links = append(links, m[1])
	}
	if m := referenceLink.FindStringSubmatch(text); m != nil {
		links = append(links, m[1])
	}
	return links
}

// headingsOf returns the headings of a Markdown file.
func headingsOf(f file) []string {
	var list []string
	for _, line := range prose(f) {
		if m := heading.FindStringSubmatch(line.text); m != nil {
			list = append(list, m[1])
		}
	}
	return list
}

// anchorsOf returns the anchors that GitHub creates for the headings of a Markdown file.
func anchorsOf(f file) []string {
	var list []string
	uses := map[string]int{}
	for _, text := range headingsOf(f) {
		text = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(text, "$1")
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, text)
		if n := uses[anchor]; n > 0 {
			list = append(list, fmt.Sprintf("%s-%d", anchor, n))
		} else {
			list = append(list, anchor)
		}
		uses[anchor]++
	}
	return list
}

// Every heading to which the sources refer exists, as in: docs/numerics.md, "The order".
func TestHeadingsResolve(t *testing.T) {
	var found failures
	headings := map[string][]string{}
	for _, f := range sources(t, ".md") {
		headings[f.name] = headingsOf(f)
	}
	for _, f := range sources(t, ".go", ".cu", ".cuh", ".yaml") {
		if strings.HasPrefix(f.name, "internal/lint/") { // examples
			continue
		}
		for _, p := range passages(t, f) {
			text := p.text.String()
			for _, m := range sectionNumber.FindAllStringIndex(text, -1) {
				found.add(f.name, p.line(m[0]), "%q: cite a heading, not a number", text[m[0]:m[1]])
			}
			for _, m := range documentLink.FindAllStringSubmatchIndex(text, -1) {
				document := text[m[2]:m[3]]
				known, ok := headings[document]
				if !ok {
					found.add(f.name, p.line(m[0]), "%s does not exist", document)
					continue
				}
				if m[4] < 0 {
					continue
				}
				want := strings.Join(strings.Fields(text[m[4]:m[5]]), " ")
				same := func(heading string) bool { return strings.EqualFold(plain(heading), plain(want)) }
				if !slices.ContainsFunc(known, same) {
					found.add(f.name, p.line(m[0]), "%s has no heading %q", document, want)
				}
			}
		}
	}
	found.report(t)
}

// plain returns a heading without its number and backquotes.
func plain(heading string) string {
	heading = regexp.MustCompile(`^\d+\.\s+`).ReplaceAllString(heading, "")
	return strings.ReplaceAll(heading, "`", "")
}

// names holds the names that the repository declares, and the paths of its files.
type names struct {
	packages map[string]bool // names of packages, and of folders with Go files
	declared map[string]bool // package.Name, package.Type.Member, and names of tests
	files    []string        // paths of all files
}

// declarations parses all Go files.
func declarations(t *testing.T) names {
	all := names{packages: map[string]bool{}, declared: map[string]bool{}}
	for _, f := range sources(t) {
		all.files = append(all.files, f.name)
		if !f.is(".go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.name, f.text, parser.SkipObjectResolution)
		require.NoError(t, err)
		pkg := strings.TrimSuffix(parsed.Name.Name, "_test")
		all.packages[pkg] = true
		declare := func(parts ...string) { all.declared[strings.Join(parts, ".")] = true }
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					declare(pkg, receiver(d), d.Name.Name)
					continue
				}
				declare(pkg, d.Name.Name)
				if f.is("_test.go") {
					declare(d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						declare(pkg, spec.Name.Name)
						for _, member := range members(spec.Type) {
							declare(pkg, spec.Name.Name, member)
						}
					case *ast.ValueSpec:
						for _, id := range spec.Names {
							declare(pkg, id.Name)
						}
					}
				}
			}
		}
	}
	return all
}

// members returns the fields of a struct or the methods of an interface.
func members(e ast.Expr) []string {
	var fields *ast.FieldList
	switch e := e.(type) {
	case *ast.StructType:
		fields = e.Fields
	case *ast.InterfaceType:
		fields = e.Methods
	default:
		return nil
	}
	var list []string
	for _, field := range fields.List {
		for _, id := range field.Names {
			list = append(list, id.Name)
		}
	}
	return list
}

var (
	qualified = regexp.MustCompile(`^\*?([a-z]\w*)\.([A-Z]\w*)(?:\.(\w+))?(?:[({\[].*)?$`)
	testName  = regexp.MustCompile(`^(?:Test|Fuzz|Benchmark|Example)[A-Z]\w*$`)
	filePath  = regexp.MustCompile(`^[\w./-]+\.(?:go|s|cu|cuh|sh|py|md|ptx)$`)
)

// wrong says what is wrong with a piece of code in a document. It returns "" if the code is right.
func (n names) wrong(document, code string) string {
	if m := qualified.FindStringSubmatch(code); m != nil && n.packages[m[1]] {
		name := m[1] + "." + m[2]
		if !n.declared[name] {
			return name + " is not declared"
		}
		if m[3] != "" && !n.declared[name+"."+m[3]] {
			return name + "." + m[3] + " is not declared"
		}
	}
	if testName.MatchString(code) && !n.declared[code] {
		return "there is no test " + code
	}
	if filePath.MatchString(code) && code == strings.ToLower(code) {
		here := resolve(document, code)
		if !slices.ContainsFunc(n.files, func(file string) bool {
			return file == here || file == code || strings.HasSuffix(file, "/"+code)
		}) {
			return "there is no file " + code
		}
	}
	return ""
}

// Documents refer in backquotes only to names and files that exist: `package.Name`, `TestName` and
// `path/file.go`.
func TestCodeReferencesResolve(t *testing.T) {
	all := declarations(t)
	var found failures
	for _, f := range sources(t, ".md") {
		if strings.HasPrefix(f.name, history) || f.name == "CHANGELOG.md" {
			continue
		}
		for _, line := range prose(f) {
			for _, m := range spans.FindAllStringSubmatch(line.text, -1) {
				if why := all.wrong(f.name, m[1]); why != "" {
					found.add(f.name, line.number, "%s", why)
				}
			}
		}
	}
	found.report(t)
}

func TestReferences(t *testing.T) {
	assert.Equal(t, []string{"a.md#b", "c"}, linksOf("See [`x`](a.md#b), `[y](z)` and [c](c \"title\")."))
	doc := file{"a.md", []byte("# The `auto` rule, §2\n```\n# no heading\n```\n## Next\n## Next\n")}
	assert.Equal(t, []string{"the-auto-rule-2", "next", "next-1"}, anchorsOf(doc))

	all := declarations(t)
	for code, want := range map[string]string{
		"kg.Graph":              "",
		"kg.Graph.Entities":     "",
		"kg.NoSuchName":         "kg.NoSuchName is not declared",
		"kg.Graph.Nothing":      "kg.Graph.Nothing is not declared",
		"filepath.WalkDir":      "",
		"TestReferences":        "",
		"TestThatNobodyWrote":   "there is no test TestThatNobodyWrote",
		"links_test.go":         "",
		"internal/lint/none.go": "there is no file internal/lint/none.go",
		"kg/NAME.go":            "",
	} {
		assert.Equal(t, want, all.wrong("docs/x.md", code), code)
	}
}
