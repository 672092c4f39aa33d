//go:build unix

package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fixture"
	"github.com/mquine/mquine/kernel"
)

var updateHowTo = flag.Bool("update-howto", false, "write the output of the commands into docs/howto")

// TestHowTo runs the commands of the pages in docs/howto, in a shell, and compares what they print
// with the page. Some pages need a checkpoint of another tool, in the folder "published".
func TestHowTo(t *testing.T) {
	fixtures := fixture.Root(t)
	if os.Getenv("MQUINE_DATA") == "" {
		t.Skip("MQUINE_DATA does not name the folder of the data sets")
	}
	if must1(kernel.New()).Tier == kernel.Generic {
		t.Skip("the portable kernels train other parameters")
	}
	pages, err := filepath.Glob("../../docs/howto/*.md")
	require.NoError(t, err)
	require.Len(t, pages, 5)
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			dir := t.TempDir()
			published := filepath.Join(fixtures, "rotate-repo-rotate-umls")
			require.NoError(t, os.CopyFS(filepath.Join(dir, "published"), os.DirFS(published)))
			got := runPage(t, string(text), dir)
			if *updateHowTo {
				require.NoError(t, os.WriteFile(page, []byte(got), 0o644))
			}
			assert.Equal(t, string(text), got)
		})
	}
}

// runPage runs the commands in the console blocks of a page. A command begins with "$ " and
// continues after a backslash or with "> ". runPage returns the page with the output of the
// commands.
func runPage(t *testing.T, page, dir string) string {
	var out strings.Builder
	inside := false
	lines := strings.SplitAfter(page, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case strings.HasPrefix(line, "```"):
			inside = strings.TrimSpace(line) == "```console"
		case inside && strings.HasPrefix(line, "$ "):
			shell := strings.TrimPrefix(line, "$ ")
			out.WriteString(line)
			for strings.HasSuffix(lines[i], "\\\n") || strings.HasPrefix(lines[i+1], "> ") {
				i++
				shell += strings.TrimPrefix(lines[i], "> ")
				out.WriteString(lines[i])
			}
			out.WriteString(runShell(t, shell, dir))
			continue
		case inside:
			continue // old output, which the new output replaces
		}
		out.WriteString(line)
	}
	return out.String()
}

// runShell returns what a command line prints to standard output. In the command line, mquine is
// the test binary, run as the command.
func runShell(t *testing.T, line, dir string) string {
	self := command(t)
	cmd := exec.Command("sh", "-c", `mquine() { "$0" "$@"; }
`+line, self.Path)
	cmd.Env, cmd.Dir = self.Env, dir
	var errors strings.Builder
	cmd.Stderr = &errors
	output, err := cmd.Output()
	require.NoError(t, err, "%s%s", line, errors.String())
	for _, printed := range strings.Split(string(output), "\n") {
		assert.LessOrEqual(t, len([]rune(printed)), 80, printed)
	}
	return string(output)
}
