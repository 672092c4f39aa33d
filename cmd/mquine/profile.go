package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/pkg/profile"
	"github.com/spf13/cobra"
)

// profileKind describes a kind of profile.
type profileKind struct {
	mode func(*profile.Profile)
	file string // the name that pkg/profile gives the file
	tool string // the command that shows the file
}

var (
	profileKinds = map[string]profileKind{
		"cpu":   {profile.CPUProfile, "cpu.pprof", "go tool pprof"},
		"mem":   {profile.MemProfileAllocs, "mem.pprof", "go tool pprof"},
		"block": {profile.BlockProfile, "block.pprof", "go tool pprof"},
		"trace": {profile.TraceProfile, "trace.out", "go tool trace"},
	}
	profileNames = []string{"cpu", "mem", "block", "trace"}
)

// addProfiling adds the flags --profile and --profile-dir to all commands.
func addProfiling(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.Var(choice[string]{new(string), profileNames}, "profile",
		"write a profile of this kind: cpu, mem (all allocations), block or trace")
	complete(root, "profile", cobra.FixedCompletions(profileNames, cobra.ShellCompDirectiveNoFileComp))
	flags.String("profile-dir", ".", "write the profile to `DIR`")
	must(root.MarkPersistentFlagDirname("profile-dir"))
	for _, name := range []string{"profile", "profile-dir"} { // for developers; docs/tuning.md describes them
		must(flags.MarkHidden(name))
	}
}

// checkProfiling returns an error if --profile-dir has no effect.
func checkProfiling(cmd *cobra.Command) error {
	if cmd.Flag("profile-dir").Changed && !cmd.Flag("profile").Changed {
		return errors.New("--profile-dir needs --profile: name the kind of profile, as in --profile cpu")
	}
	return nil
}

// profileOutputs returns the file of --profile, or nothing without the flag.
func profileOutputs(cmd *cobra.Command) []output {
	kind, ok := profileKinds[cmd.Flag("profile").Value.String()]
	if !ok {
		return nil
	}
	return []output{{flag: "profile-dir", path: filepath.Join(cmd.Flag("profile-dir").Value.String(), kind.file)}}
}

// profiled runs the work of a command. With --profile, it also writes the profile, even if the work
// fails.
func profiled(cmd *cobra.Command, args []string, work func() error) (err error) {
	outputs := profileOutputs(cmd)
	if outputs == nil {
		return work()
	}
	kind, path := profileKinds[cmd.Flag("profile").Value.String()], outputs[0].path
	folder := filepath.Dir(path)
	// pkg/profile exits if it cannot create its file, so give it a fresh folder. Renaming the file
	// afterwards makes it appear atomically.
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return fmt.Errorf("cannot write the profile: %w", err)
	}
	if err := outputs[0].check(inputFiles(cmd, args), false); err != nil {
		return err
	}
	aside, err := atomicfile.TemporaryFolder(folder, "profile")
	if err != nil {
		return fmt.Errorf("cannot write the profile: %w", err)
	}
	defer aside.Remove()

	session := profile.Start(kind.mode, profile.ProfilePath(aside.Path), profile.Quiet, profile.NoShutdownHook)
	before := cmd.Context()
	// If the context has labels, package rank also labels its phases.
	pprof.Do(before, pprof.Labels("command", cmd.CommandPath()), func(ctx context.Context) {
		cmd.SetContext(ctx)
		err = work()
	})
	cmd.SetContext(before)
	session.Stop()

	made := filepath.Join(aside.Path, kind.file)
	if info, wrong := os.Stat(made); wrong != nil || info.Size() == 0 {
		return errors.Join(err, fmt.Errorf("cannot write the profile %s: check that the disk is not full", path))
	}
	if wrong := os.Rename(made, path); wrong != nil {
		return errors.Join(err, fmt.Errorf("cannot write the profile: %w", wrong))
	}
	printLine(cmd.ErrOrStderr(), "profile: %s %s", kind.tool, shellCommand(path))
	return err
}

// phase runs a part of a command's work under a label that profiles show.
func phase(ctx context.Context, name string, work func(context.Context) error) (err error) {
	pprof.Do(ctx, pprof.Labels("phase", name), func(ctx context.Context) { err = work(ctx) })
	return err
}
