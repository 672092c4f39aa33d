package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The Python package lists the flags that may be repeated, for each command.
func TestPythonRepeatsFlags(t *testing.T) {
	module, err := os.ReadFile("../../python/mquine/__init__.py")
	require.NoError(t, err)
	table := regexp.MustCompile(`(?s)\n_REPEATED = \{\n.*?\n\}`).Find(module)
	require.NotNil(t, table)
	listed := map[string][]string{}
	for _, line := range regexp.MustCompile(`"([a-z ]+)": \[(.*)\]`).FindAllSubmatch(table, -1) {
		for _, flag := range regexp.MustCompile(`--([a-z-]+)`).FindAllSubmatch(line[2], -1) {
			listed[string(line[1])] = append(listed[string(line[1])], string(flag[1]))
		}
	}
	assert.NotEmpty(t, listed)
	everyCommand(newRootCommand(time.Now()), func(cmd *cobra.Command) {
		var repeated []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if _, ok := f.Value.(pflag.SliceValue); ok {
				repeated = append(repeated, f.Name)
			}
		})
		name := strings.TrimPrefix(cmd.CommandPath(), "mquine ")
		assert.ElementsMatch(t, repeated, listed[name], name)
		delete(listed, name)
	})
	assert.Empty(t, listed, "no such commands")
}
