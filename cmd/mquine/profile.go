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

// profileKind is a kind of profile, by its name on the command line.
type profileKind struct {
	mode func(*profile.Profile)
	file string // as pkg/profile names it
	tool string // shows it
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

// addProfiling adds the flags to every command.
func addProfiling(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.Var(choice[string]{new(string), profileNames}, "profile", "profile the command: `kind` cpu, mem (all allocations), block or trace")
	complete(root, "profile", cobra.FixedCompletions(profileNames, cobra.ShellCompDirectiveNoFileComp))
	flags.String("profile-dir", ".", "`folder` for the profile")
	must(root.MarkPersistentFlagDirname("profile-dir"))
}

// profiled does the work of a command, and writes its profile if one is asked for, whether or not the
// work fails.
func profiled(cmd *cobra.Command, work func() error) (err error) {
	kind, ok := profileKinds[cmd.Flag("profile").Value.String()]
	folder := cmd.Flag("profile-dir").Value.String()
	if !ok {
		return work()
	}
	// pkg/profile ends the process if it cannot make its file, so it gets a folder that takes one; and
	// a profile appears when it is whole.
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return fmt.Errorf("cannot write the profile: %w", err)
	}
	path := filepath.Join(folder, kind.file)
	if err := (output{"profile-dir", path}).check(nil, false); err != nil {
		return err
	}
	aside, err := atomicfile.TemporaryFolder(folder, "profile")
	if err != nil {
		return fmt.Errorf("cannot write the profile: %w", err)
	}
	defer aside.Remove()

	session := profile.Start(kind.mode, profile.ProfilePath(aside.Path), profile.Quiet, profile.NoShutdownHook)
	before := cmd.Context()
	// The labels also tell package rank to label its phases.
	pprof.Do(before, pprof.Labels("command", cmd.CommandPath()), func(ctx context.Context) {
		cmd.SetContext(ctx)
		err = work()
	})
	cmd.SetContext(before)
	session.Stop()

	made := filepath.Join(aside.Path, kind.file)
	if info, wrong := os.Stat(made); wrong != nil || info.Size() == 0 {
		return errors.Join(err, fmt.Errorf("the profile %s could not be written: is the disk full?", path))
	}
	if wrong := os.Rename(made, path); wrong != nil {
		return errors.Join(err, fmt.Errorf("cannot write the profile: %w", wrong))
	}
	printLine(cmd.ErrOrStderr(), "profile: %s %s", kind.tool, path)
	return err
}

// phase does a part of a command's work under the label that profiles show for it.
func phase(ctx context.Context, name string, work func(context.Context) error) (err error) {
	pprof.Do(ctx, pprof.Labels("phase", name), func(ctx context.Context) { err = work(ctx) })
	return err
}
