package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the number of columns that help texts fit into.
const helpWidth = 80

// The groups of commands in the help of mquine, in this order.
var commandGroups = []*cobra.Group{
	{ID: "start", Title: "First steps:"},
	{ID: "data", Title: "Data sets:"},
	{ID: "models", Title: "Checkpoints and training:"},
	{ID: "evaluation", Title: "Evaluation:"},
	{ID: "machine", Title: "Speed and machine:"},
	{ID: "other", Title: "Other:"},
}

// addInGroup adds commands to root, in the group with the given ID.
func addInGroup(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
	}
	root.AddCommand(commands...)
}

// printUsage prints the usage of a command, its examples, subcommands and flags. Cobra's own usage
// text does not wrap the descriptions of flags, and lists the global flags with every command.
func printUsage(cmd *cobra.Command) error {
	w := cmd.OutOrStderr()
	usage := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		usage = cmd.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(w, "Usage:\n  %s\n", usage)
	if cmd.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() && len(cmd.Groups()) == 0 {
		fmt.Fprintln(w)
		printCommands(w, cmd, "Commands:", "")
	}
	for _, g := range cmd.Groups() {
		fmt.Fprintln(w)
		printCommands(w, cmd, g.Title, g.ID)
	}
	printFlags(w, "\nFlags:\n", cmd.LocalFlags())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nRun \"%s COMMAND --help\" for details and examples of a command.\n", cmd.CommandPath())
	} else if cmd.HasAvailableInheritedFlags() {
		fmt.Fprintf(w, "\nRun \"%s --help\" for the flags of all commands.\n", cmd.Root().Name())
	}
	return nil
}

// printCommands lists the subcommands in a group.
func printCommands(w io.Writer, parent *cobra.Command, title, group string) {
	fmt.Fprintln(w, title)
	for _, c := range parent.Commands() {
		if c.GroupID == group && (c.IsAvailableCommand() || c.Name() == "help") {
			fmt.Fprintf(w, "  %-*s %s\n", parent.NamePadding(), c.Name(), c.Short)
		}
	}
}

func printFlags(w io.Writer, title string, flags *pflag.FlagSet) {
	if flags.HasAvailableFlags() {
		fmt.Fprint(w, title, flags.FlagUsagesWrapped(helpWidth))
	}
}
