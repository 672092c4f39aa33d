package lint

import (
	"bufio"
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the folder of the repository.
var root = filepath.Join("..", "..")

// file is a text file of the repository.
type file struct {
	name string // relative to the root, with slashes
	text []byte
}

// lines returns the lines of the file without their ends.
func (f file) lines() []string {
	return strings.Split(strings.TrimSuffix(string(f.text), "\n"), "\n")
}

// generatedLine matches the line with which Go's tools mark generated code, in Go or in Markdown.
var generatedLine = regexp.MustCompile(`(?m)^(//|<!--) Code generated .* DO NOT EDIT\.( -->)?$`)

// generated reports whether the first lines of the file say that a program writes it.
func (f file) generated() bool {
	return generatedLine.Match(f.text[:min(len(f.text), 2000)])
}

// is reports whether the name of the file matches one of the patterns. A pattern is the end of a
// name, such as ".go" or "_test.go", or a whole name.
func (f file) is(patterns ...string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		end := strings.HasPrefix(p, ".") || strings.HasPrefix(p, "_")
		return f.name == p || end && strings.HasSuffix(f.name, p)
	})
}

// ignored lists the folders that do not contain sources (see .gitignore).
var ignored = []string{".git", ".gpu", "bin", "dist", "out"}

// sources returns the files of the repository whose names match one of the patterns of file.is, or
// all files if there are no patterns.
func sources(t *testing.T, patterns ...string) []file {
	t.Helper()
	var files []file
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		f := file{name: filepath.ToSlash(rel)}
		if d.IsDir() {
			if slices.Contains(ignored, f.name) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || len(patterns) > 0 && !f.is(patterns...) {
			return nil
		}
		f.text, err = os.ReadFile(at)
		files = append(files, f)
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// failures collects the findings of a test, so one run reports all of them.
type failures struct {
	list []failure
}

type failure struct {
	file    string
	line    int
	message string
}

func (fs *failures) add(file string, line int, format string, args ...any) {
	fs.list = append(fs.list, failure{file, line, fmt.Sprintf(format, args...)})
}

// report fails the test if there are failures. It prints them in the order of files and lines, and
// then the number of failures in every top-level folder.
func (fs *failures) report(t *testing.T) {
	t.Helper()
	if len(fs.list) == 0 {
		return
	}
	slices.SortStableFunc(fs.list, func(a, b failure) int {
		return cmp.Or(strings.Compare(a.file, b.file), a.line-b.line)
	})
	counts := map[string]int{}
	out := bufio.NewWriter(t.Output())
	for _, f := range fs.list {
		fmt.Fprintf(out, "%s:%d: %s\n", f.file, f.line, f.message)
		folder, _, inside := strings.Cut(f.file, "/")
		if !inside {
			folder = "."
		}
		counts[folder]++
	}
	for _, folder := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(out, "%6d in %s\n", counts[folder], folder)
	}
	require.NoError(t, out.Flush())
	t.Errorf("%d failures", len(fs.list))
}

// resolve returns the path, relative to the root, to which a reference in a file leads. The
// reference may begin with "../". If it is empty, it refers to the file itself.
func resolve(from, reference string) string {
	if reference == "" {
		return from
	}
	return path.Join(path.Dir(from), reference)
}
