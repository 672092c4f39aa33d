package main

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mquine/mquine/internal/text"
)

// newRootCommand returns the command tree. start is the time at which the process began.
func newRootCommand(start time.Time) *cobra.Command {
	root := &cobra.Command{
		Use:   "mquine",
		Short: "Evaluate, train and benchmark knowledge graph embeddings",
		Long: `mquine evaluates, trains and benchmarks knowledge graph embedding models.

A data set has triples (head, relation, tail) in three splits: train, valid and
test. A checkpoint is a model on disk, which gives every triple a score. Each
test triple makes two queries, (head, relation, ?) and (?, relation, tail). The
rank of the true answer among all entities measures how well the model predicts.
Ranks are exact: they do not depend on the processor or the number of threads.

  mquine demo                           train and rank a toy graph; no download
  mquine data get umls                  download a data set
  mquine eval CKPT --data umls          evaluate a checkpoint on the test split

--data accepts the name of an installed data set or a path. A value with a slash
is a path.

Environment variables:
  MQUINE_DATA  folder of the installed data sets (default: in your cache)
  MQUINE_TIER  highest instruction set to use: avx512, avx2 or generic
  MQUINE_CPU   processor features to switch off, such as -vnni,-amx
  NO_COLOR     no colours on a terminal, if set
MQUINE_TIER and MQUINE_CPU affect the speed, never a rank of a given checkpoint.
With the tier generic, training may give different parameters than with avx2.

Results go to standard output, progress and notes to standard error. Tables and
messages show control and invisible characters as escapes, such as \x1b.
"--profile cpu" makes any command write a profile of itself (docs/tuning.md).

Exit status:
  0    success
  1    bad input, failed work, or a checkpoint or data set that fails its checks
  2    wrong usage
  130  interrupted
  141  the reader of standard output is gone`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			return cmp.Or(setVerbosity(cmd), checkRequired(cmd), checkPaths(cmd, args), checkFormat(cmd))
		},
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetUsageFunc(printUsage)
	root.SetHelpFunc(printHelp)
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.AddGroup(commandGroups...)
	addInGroup(root, "data", newDataCommand())
	addInGroup(root, "train", newTrainCommand(), newTuneCommand(), newInitCommand())
	addInGroup(root, "checkpoints", newImportCommand(), newExportCommand(), newInfoCommand())
	addInGroup(root, "evaluate", newEvalCommand(start), newCompareCommand(), newPredictCommand(),
		newDiscoverCommand(), newScoreCommand(), newClassifyCommand(), newSimilarCommand())
	addInGroup(root, "analyse", newReportCommand(), newZCommand(), newAbilitiesCommand())
	addInGroup(root, "measure", newBenchCommand(), newDoctorCommand())
	addInGroup(root, "other", newDemoCommand(start), newVersionCommand())
	for _, c := range root.Commands() {
		c.SuggestFor = commandsHere[c.Name()]
	}
	root.SetHelpCommandGroupID("other")
	root.SetCompletionCommandGroupID("other")
	checkHelpTopic(root)
	cobra.EnableCommandSorting = false
	addVerbosity(root)
	addProfiling(root)
	keepFlagOrder(root)
	return root
}

// keepFlagOrder makes the help of cmd and its subcommands list flags in the order of their
// definition.
func keepFlagOrder(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.PersistentFlags().SortFlags = false
	for _, c := range cmd.Commands() {
		keepFlagOrder(c)
	}
}

// checkHelpTopic makes help refuse the name of an unknown command, as the command line itself does.
func checkHelpTopic(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	must(err)
	help.Args = func(_ *cobra.Command, args []string) error {
		topic, rest, err := root.Find(args)
		if err == nil && topic.HasSubCommands() {
			err = topic.ValidateArgs(rest)
		}
		return err
	}
}

// workError is an error in a command's work. Every other error means that the command line is
// wrong.
type workError struct{ error }

func (e workError) Unwrap() error { return e.error }

// markWork wraps the work of cmd and its subcommands. Cobra calls the work after it has checked the
// arguments. The wrapper checks --profile-dir and the output files, profiles the work if requested, and
// turns an error of the work or of an output into a workError. A command that only groups others prints
// its help, and refuses arguments.
func markWork(cmd *cobra.Command) {
	switch work := cmd.RunE; {
	case !cmd.HasSubCommands() && work != nil:
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := checkProfiling(cmd); err != nil {
				return err
			}
			err := checkOutputs(cmd, args)
			if err == nil {
				err = profiled(cmd, args, func() error { return work(cmd, args) })
			}
			if err != nil {
				return workError{err}
			}
			return nil
		}
	case cmd.HasParent() && cmd.HasSubCommands() && !cmd.Runnable():
		cmd.Args = cobra.NoArgs
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	for _, c := range cmd.Commands() {
		markWork(c)
	}
}

// version returns the version of the module, its commit if the build recorded it, and the platform.
func version() string {
	module, revision := build()
	v := strings.TrimSpace(cmp.Or(module, "(unknown version)") + " " + revision)
	return fmt.Sprintf("%s, %s, %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long:  `Print the version, the commit of the build, the version of Go and the platform.`,
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return writeOutput(cmd, []byte("mquine "+version()+"\n"))
		},
	}
}

// noArgs refuses arguments. Cobra's own check would call them unknown commands.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q: the command accepts only flags", args[0])
	}
	return nil
}

// oneArg requires one argument. missing is the message of the error if there is no argument.
func oneArg(missing string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return errors.New(missing)
		}
		return atMostOne("argument", args)
	}
}

// atMostOne refuses a second argument. what says what the first one names.
func atMostOne(what string, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("unexpected argument %q: the command accepts one %s", args[1], what)
	}
	return nil
}

// checkRequired returns an error that names the required flags that are missing.
func checkRequired(cmd *cobra.Command) error {
	var missing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[cobra.BashCompOneRequiredFlag] != nil && !f.Changed {
			missing = append(missing, "--"+f.Name)
		}
	})
	switch n := len(missing); n {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s is missing", missing[0])
	default:
		return fmt.Errorf("%s and %s are missing", strings.Join(missing[:n-1], ", "), missing[n-1])
	}
}

// flagError rewrites an error from the flag parser as a plain sentence.
func flagError(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		noValue *pflag.ValueRequiredError
		bad     *pflag.InvalidValueError
		number  *strconv.NumError
	)
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(cmd, unknown.GetSpecifiedName())
	case errors.As(err, &noValue):
		return fmt.Errorf("%s needs a value", dashed(noValue.GetSpecifiedName()))
	case errors.As(err, &bad):
		cause := bad.Unwrap()
		if errors.As(cause, &number) {
			cause = errors.New("must be true or false") // only boolean flags return such an error
		}
		return fmt.Errorf("%s %q: %w", dashed(bad.GetFlag().Name), bad.GetValue(), cause)
	}
	return err
}

// unknownFlag returns the error for a flag that cmd lacks. The error suggests the flag of cmd that
// other tools call by this name, or otherwise the most similar flag.
func unknownFlag(cmd *cobra.Command, name string) error {
	message := "unknown flag " + dashed(name)
	var flags []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, f.Name)
		}
	})
	plain := strings.ReplaceAll(name, "_", "-")
	if here := namesHere[plain]; slices.Contains(flags, here) {
		message += "; did you mean " + dashed(here)
	} else if why := chosenHere[plain]; why != "" && slices.Contains(flags, "threads") {
		message += ": leave it out, " + why
	} else if similar := text.Similar(name, flags, 1); len(name) > 1 && len(similar) > 0 {
		message += "; did you mean " + dashed(similar[0])
	}
	if _, labels := cmd.Annotations[labelArgs]; labels {
		message += "; write -- before labels that begin with -"
	}
	return errors.New(message)
}

// dashed returns the name of a flag as users type it.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
