package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the number of columns that help texts fit into.
const helpWidth = 80

// commandGroups are the groups of commands, in their order in the help of mquine.
var commandGroups = []*cobra.Group{
	{ID: "data", Title: "Data:"},
	{ID: "train", Title: "Train:"},
	{ID: "checkpoints", Title: "Checkpoints:"},
	{ID: "evaluate", Title: "Evaluate:"},
	{ID: "analyse", Title: "Analyse:"},
	{ID: "measure", Title: "Measure:"},
	{ID: "other", Title: "Other:"},
}

// The groups of flags in the help of a command.
const (
	modelFlags          = "Model"
	dataFlags           = "Data"
	inputFlags          = "Input"
	tablesFlags         = "Tables, for --from tensors"
	queryFlags          = "Query"
	protocolFlags       = "Protocol"
	candidateFlags      = "Candidates"
	negativesFlags      = "Negatives"
	lossFlags           = "Loss"
	regularisationFlags = "Regularisation"
	optimiserFlags      = "Optimiser"
	validationFlags     = "Validation"
	searchFlags         = "Search"
	runFlags            = "Run"
	outputFlags         = "Output"
	machineFlags        = "Machine"
	otherFlags          = "Other"
)

// flagGroups lists the groups of flags in the order of a help text.
var flagGroups = []string{
	modelFlags, dataFlags, inputFlags, tablesFlags, queryFlags, protocolFlags, candidateFlags, negativesFlags,
	lossFlags, regularisationFlags, optimiserFlags, validationFlags, searchFlags, runFlags, outputFlags,
	machineFlags, otherFlags,
}

// groupAnnotation is the annotation that holds the group of a flag. Flags without this annotation
// are in outputFlags, except for --help.
const groupAnnotation = "mquine-group"

// inGroup puts flags of a command into a group of its help.
func inGroup(cmd *cobra.Command, group string, flags ...string) {
	for _, name := range flags {
		must(cmd.Flags().SetAnnotation(name, groupAnnotation, []string{group}))
	}
}

func groupOf(f *pflag.Flag) string {
	if group := f.Annotations[groupAnnotation]; group != nil {
		return group[0]
	}
	if f.Name == "help" {
		return otherFlags
	}
	return outputFlags
}

// fitCompletionHelp shortens the only line of cobra's help texts that is longer than helpWidth.
func fitCompletionHelp(root *cobra.Command) {
	if bash, _, err := root.Find([]string{"completion", "bash"}); err == nil {
		bash.Long = strings.Replace(bash.Long, "you can install it via your OS's package manager",
			"install it first", 1)
	}
}

// addInGroup adds commands to root, in the group with the given ID.
func addInGroup(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
	}
	root.AddCommand(commands...)
}

// printHelp prints the help of a command. The first paragraph of the description comes before the usage and
// the examples, and the others after them, so that long descriptions do not hide the usage. The
// description of mquine itself comes first, whole.
func printHelp(cmd *cobra.Command, _ []string) {
	w := cmd.OutOrStdout()
	description, details := cmp.Or(cmd.Long, cmd.Short), ""
	if cmd.HasParent() {
		description, details, _ = strings.Cut(description, "\n\n")
	}
	fmt.Fprintf(w, "%s\n\n", strings.TrimSpace(description))
	printSynopsis(w, cmd)
	if details != "" {
		fmt.Fprintf(w, "\n%s\n", strings.Trim(details, "\n"))
	}
	printParts(w, cmd)
}

// printUsage prints the usage of a command, its examples, subcommands and flags. Cobra's own usage
// text does not wrap the descriptions of flags, and lists the global flags with every command.
func printUsage(cmd *cobra.Command) error {
	w := cmd.OutOrStderr()
	printSynopsis(w, cmd)
	printParts(w, cmd)
	return nil
}

// printSynopsis prints the usage of a command and its examples.
func printSynopsis(w io.Writer, cmd *cobra.Command) {
	usage := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		usage = cmd.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(w, "Usage:\n  %s\n", usage)
	if cmd.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
}

// printParts prints the subcommands of a command and its flags.
func printParts(w io.Writer, cmd *cobra.Command) {
	if cmd.HasAvailableSubCommands() && len(cmd.Groups()) == 0 {
		fmt.Fprintln(w)
		printCommands(w, cmd, "Commands:", "")
	}
	for _, g := range cmd.Groups() {
		fmt.Fprintln(w)
		printCommands(w, cmd, g.Title, g.ID)
	}
	printFlags(w, cmd.LocalFlags())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nRun \"%s COMMAND --help\" for details and examples of a command.\n", cmd.CommandPath())
	} else if cmd.HasAvailableInheritedFlags() {
		fmt.Fprintf(w, "\nEvery command also has --verbose and --quiet: see \"%s --help\".\n", cmd.Root().Name())
	}
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

// printFlags lists flags, in groups if there are many.
func printFlags(w io.Writer, flags *pflag.FlagSet) {
	const many = 8
	shown := 0
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			shown++
		}
	})
	groups := []string{"Flags"}
	if shown > many {
		groups = flagGroups
	}
	for _, group := range groups {
		members := pflag.NewFlagSet("", pflag.ContinueOnError)
		members.SortFlags = false
		flags.VisitAll(func(f *pflag.Flag) {
			if len(groups) == 1 || groupOf(f) == group {
				members.AddFlag(f)
			}
		})
		if members.HasAvailableFlags() {
			fmt.Fprintf(w, "\n%s:\n%s", group, members.FlagUsagesWrapped(helpWidth))
		}
	}
}
