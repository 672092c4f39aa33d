package main

import (
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
)

// Every command and every flag has a help text, and the help of a flag names its value.
func TestEverythingHasHelp(t *testing.T) {
	var check func(cmd *cobra.Command)
	commands, flags := 0, 0
	check = func(cmd *cobra.Command) {
		commands++
		path := cmd.CommandPath()
		assert.NotEmpty(t, cmd.Short, "%s has no short help", path)
		if cmd.Runnable() {
			assert.NotEmpty(t, cmd.Long, "%s has no long help", path)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			flags++
			assert.NotEmpty(t, f.Usage, "%s --%s has no help", path, f.Name)
			placeholder, _ := pflag.UnquoteUsage(f)
			if f.Value.Type() != "bool" {
				assert.NotEmpty(t, placeholder, "%s --%s does not name its value", path, f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(newRootCommand(time.Now()))
	assert.Greater(t, commands, 15)
	assert.Greater(t, flags, 100)
}

// A help text lists flags in the order of their definition, so --force follows an output file, and
// it lists a flag of several commands in the same group.
func TestFlagOrder(t *testing.T) {
	forces, conventions := 0, 0
	everyCommand(newRootCommand(time.Now()), func(cmd *cobra.Command) {
		previous := &pflag.Flag{}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			switch f.Name {
			case forceFlag:
				forces++
				assert.Contains(t, previous.Annotations, outputFlag, cmd.CommandPath())
			case "convention":
				conventions++
				assert.Equal(t, protocolFlags, groupOf(f), cmd.CommandPath())
			}
			previous = f
		})
	})
	assert.Greater(t, forces, 10)
	assert.Equal(t, 4, conventions)
}
