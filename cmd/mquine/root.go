package main

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newRootCommand returns the whole command; start is when the process began.
func newRootCommand(start time.Time) *cobra.Command {
	root := &cobra.Command{
		Use:   "mquine",
		Short: "Rank knowledge graph embeddings exactly",
		Long: `mquine ranks checkpoints of knowledge graph embeddings: exactly, in full, as fast as the
processor allows.

A data set has triples (head, relation, tail) in three splits: train, valid and test. A
checkpoint is a trained model that gives every triple a score. Each test triple makes two
queries, (head, relation, ?) and (?, relation, tail); the rank of the true answer among all
entities says how well the model knows it.

  mquine demo                                  the main job on a small graph, nothing to download
  mquine data get umls                         fetch a data set
  mquine eval --model CKPT --data umls         rank a checkpoint on its test split

Wherever a command takes --data, give the name of a data set in the folder that MQUINE_DATA
names (by default one in your cache), or a folder: a value with a slash is a folder. MQUINE_TIER
(avx512, avx2 or generic) caps the instruction set, and MQUINE_CPU switches features of it off, as
in -vnni,-amx; they change the speed and never a rank.

Results go to standard output, all else to standard error. Tables and messages show control
characters and invisible characters of labels and names as escapes, such as \x1b. The exit status
is 0 for success, 1 for bad input, failed work and bad news about a checkpoint or data set, 2 for
wrong usage, 130 when interrupted, 141 when the reader of standard output is gone.`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			return cmp.Or(checkRequired(cmd), checkPaths(cmd, args))
		},
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.AddCommand(
		newDemoCommand(start),
		newDataCommand(),
		newInitCommand(),
		newTrainCommand(),
		newTuneCommand(),
		newImportCommand(),
		newEvalCommand(start),
		newCompareCommand(),
		newPredictCommand(),
		newZCommand(),
		newBenchCommand(),
		newInfoCommand(),
	)
	cobra.EnableCommandSorting = false
	addProfiling(root)
	return root
}

// workError is an error of what a command does. Every other error of a command line is wrong usage.
type workError struct{ error }

func (e workError) Unwrap() error { return e.error }

// markWork marks the errors of all commands' work, which cobra begins when it has found nothing
// wrong with the arguments, and has it profiled if asked for. A command that only has others says
// so when it is given an argument.
func markWork(cmd *cobra.Command) {
	switch work := cmd.RunE; {
	case !cmd.HasSubCommands() && work != nil:
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := checkOutputs(cmd, args)
			if err == nil {
				err = profiled(cmd, func() error { return work(cmd, args) })
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

// version tells the version of the module and the commit that it was built from, as far as the
// build knows them.
func version() string {
	v := "(unknown version)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v += " " + s.Value
			}
		}
	}
	return fmt.Sprintf("%s, %s, %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// noArgs refuses arguments, which cobra would call unknown commands.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q: the command takes flags only", args[0])
	}
	return nil
}

// oneArg takes one argument; question asks for it where it is missing.
func oneArg(question string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return errors.New(question)
		case len(args) > 1:
			return fmt.Errorf("unexpected argument %q: the command takes one", args[1])
		}
		return nil
	}
}

// checkRequired names the required flags that are missing.
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

// flagError says plainly what the flag parser found.
func flagError(err error) error {
	var (
		unknown *pflag.NotExistError
		noValue *pflag.ValueRequiredError
		bad     *pflag.InvalidValueError
		number  *strconv.NumError
	)
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("unknown flag %s", dashed(unknown.GetSpecifiedName()))
	case errors.As(err, &noValue):
		return fmt.Errorf("%s needs a value", dashed(noValue.GetSpecifiedName()))
	case errors.As(err, &bad):
		cause := bad.Unwrap()
		if errors.As(cause, &number) {
			cause = errors.New(wantedBy(bad.GetFlag()))
		}
		return fmt.Errorf("%s %q: %w", dashed(bad.GetFlag().Name), bad.GetValue(), cause)
	}
	return err
}

// wantedBy says what a flag takes that is a bool or a uint64 of pflag.
func wantedBy(flag *pflag.Flag) string {
	if flag.Value.Type() == "bool" {
		return "must be true or false"
	}
	return "must be a whole number from 0 to 2⁶⁴ − 1"
}

// dashed writes the name of a flag as on the command line.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
