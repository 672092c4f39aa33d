package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var manualDir = flag.String("manual", "", "write the manual pages to this `folder`")

// TestManual writes a manual page for every command. The flag -manual keeps the pages. Cobra's
// generator of manual pages runs in a test, because the command itself does not need the generator.
func TestManual(t *testing.T) {
	dir := *manualDir
	if dir == "" {
		dir = t.TempDir()
	}
	require.NoError(t, os.MkdirAll(dir, 0o777))
	root := newRootCommand(time.Now())
	root.InitDefaultCompletionCmd()
	prepareForManual(root)
	require.NoError(t, doc.GenManTree(root, &doc.GenManHeader{Source: "mquine", Manual: "mquine manual"}, dir))

	page := string(must1(os.ReadFile(filepath.Join(dir, "mquine-data-get.1"))))
	assert.Contains(t, page, "\n.SH NAME\nmquine-data-get - Download a public data set\n")
	assert.Regexp(t, `\n\\fB--from\\fP=\w+\n`, page)
	assert.Contains(t, page, "mquine data get wn18rr --from ~/Downloads/WN18RR.tar.gz\n")
	assert.NotContains(t, page, "Auto generated")
	pages := 0
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.HasParent() && !cmd.IsAvailableCommand() {
			return
		}
		pages++
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		page := string(must1(os.ReadFile(filepath.Join(dir, name))))
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				assert.Contains(t, page, `\fB--`+f.Name+`\fP`, name)
			}
		})
		for _, c := range cmd.Commands() {
			check(c)
		}
	}
	check(root)
	assert.Len(t, must1(os.ReadDir(dir)), pages)
}

// prepareForManual rewrites the help of a command and its subcommands as the Markdown that Cobra's
// generator expects.
func prepareForManual(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	cmd.Long = helpMarkdown(cmd.Long)
	cmd.InitDefaultHelpFlag()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		placeholder, usage := pflag.UnquoteUsage(f)
		switch f.DefValue {
		case "", "0", "false", "[]":
		default:
			usage += " (default " + f.DefValue + ")"
		}
		f.Usage, f.DefValue, f.Value = usage, placeholder, unquoted{f.Value}
		if f.NoOptDefVal != "" && placeholder == "" { // a boolean flag
			f.DefValue = "true"
		}
	})
	for _, c := range cmd.Commands() {
		prepareForManual(c)
	}
}

// unquoted is a value that the generator prints without quotes, because it is a placeholder.
type unquoted struct{ pflag.Value }

func (unquoted) Type() string { return "" }

// helpMarkdown returns a help text as Markdown. Indented lines are code.
func helpMarkdown(help string) string {
	escape := strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "`", "\\`", "<", `\<`, "[", `\[`)
	var b strings.Builder
	code := false
	for line := range strings.Lines(help) {
		if indented := strings.HasPrefix(line, "  "); indented != code {
			code = indented
			b.WriteString("\n```\n")
		}
		if code {
			b.WriteString(line)
		} else {
			b.WriteString(escape.Replace(line))
		}
	}
	if code {
		b.WriteString("\n```\n")
	}
	return b.String()
}
