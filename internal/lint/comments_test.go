package lint

import (
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

// Every exported name has a doc comment that begins with the name, and every package has a comment.
// The constants and variables of a group may share the comment of the group, and the comment of a
// type may explain the constants of the type.
func TestDocComments(t *testing.T) {
	var found failures
	packages := map[string]string{} // one file for each folder
	described := map[string]bool{}
	for _, f := range sources(t, ".go") {
		if f.is("_test.go") || f.generated() || strings.Contains(f.name, "testdata/") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, f.name, f.text, parser.ParseComments)
		require.NoError(t, err)
		folder := path.Dir(f.name)
		packages[folder] = f.name
		described[folder] = described[folder] || parsed.Doc != nil
		for _, m := range missingComments(parsed) {
			found.add(f.name, set.Position(m.at).Line, "%s", m.why)
		}
	}
	for folder, name := range packages {
		if !described[folder] {
			found.add(name, 1, "package %s has no comment", folder)
		}
	}
	found.report(t)
}

// missing is an exported name without a doc comment of the right form.
type missing struct {
	at  token.Pos
	why string
}

// missingComments lists the exported names of a file whose doc comments are absent or begin with a
// different word.
func missingComments(f *ast.File) []missing {
	var list []missing
	check := func(id *ast.Ident, doc *ast.CommentGroup) {
		text := doc.Text()
		words := strings.FieldsFunc(text, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_'
		})
		switch {
		case !id.IsExported():
		case len(words) == 0:
			list = append(list, missing{id.Pos(), id.Name + " has no doc comment"})
		case words[0] != id.Name && (!article(words[0]) || len(words) < 2 || words[1] != id.Name):
			list = append(list, missing{id.Pos(), "the doc comment of " + id.Name + " begins with a different word"})
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d)) && !slices.Contains(wellKnown, d.Name.Name) {
				check(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			enumeration := false // constants of a type, whose comment explains them
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if doc := spec.Doc; doc != nil || d.Lparen.IsValid() {
						check(spec.Name, doc)
					} else {
						check(spec.Name, d.Doc)
					}
				case *ast.ValueSpec:
					enumeration = enumeration || d.Tok == token.CONST && d.Lparen.IsValid() && spec.Type != nil
					if d.Lparen.IsValid() && (enumeration || d.Doc != nil || spec.Doc != nil || spec.Comment != nil) {
						continue
					}
					check(spec.Names[0], d.Doc)
				}
			}
		}
	}
	return list
}

// wellKnown lists methods whose meaning the standard library defines.
var wellKnown = []string{"Error", "Is", "MarshalText", "Read", "String", "UnmarshalText", "Unwrap", "Write"}

// article reports whether a word is an article, which a doc comment may put before the name.
func article(word string) bool {
	return word == "A" || word == "An" || word == "The"
}

// receiver returns the name of a method's receiver type.
func receiver(d *ast.FuncDecl) string {
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func TestMissingComments(t *testing.T) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "a.go", `package a
// A is right.
func A() {}
// It is wrong.
func B() {}
type C struct{}
func (c *C) D() {}
type e struct{}
func (e) F() {}
// Limits.
const (
	G = 1
	H = 2
)
const (
	K J = iota
	L
)
var (
	M = 1 // M is one.
	N = 2
)
func (J) String() string { return "" }
const I = 3
// An J begins with an article.
type J int
`, parser.ParseComments)
	require.NoError(t, err)
	var whys []string
	for _, m := range missingComments(parsed) {
		whys = append(whys, m.why)
	}
	assert.Equal(t, []string{
		"the doc comment of B begins with a different word",
		"C has no doc comment",
		"D has no doc comment",
		"N has no doc comment",
		"I has no doc comment",
	}, whys)
}

// trailingOf matches a comment after code that begins with "of", without a noun.
var trailingOf = regexp.MustCompile(`\S\s+// of [a-z]`)

// A comment after code does not begin with "of": it names what it describes, as in "// number of
// rows".
func TestTrailingComments(t *testing.T) {
	var found failures
	for _, f := range sources(t, ".go") {
		for i, line := range f.lines() {
			if trailingOf.MatchString(line) && f.name != "internal/lint/comments_test.go" {
				found.add(f.name, i+1, "the comment begins with \"of\": name the thing first")
			}
		}
	}
	found.report(t)
	assert.True(t, trailingOf.MatchString("size int // of a row"))
	assert.False(t, trailingOf.MatchString("\t// of a row"))
}
