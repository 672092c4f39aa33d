package compare

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build compiles the benchmarks of a package at a git revision into dir. An empty revision means
// the working tree. For any other revision, Build also adds a git worktree to dir, in which the
// binary runs; call remove when the binary is no longer needed. The current folder must be in the
// repository.
func Build(ctx context.Context, revision, pkg, dir, label string) (b Binary, remove func() error, err error) {
	remove = func() error { return nil }
	root, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return b, remove, err
	}
	if revision != "" {
		commit, err := output(ctx, root, "git", "rev-parse", "--verify", "--quiet", revision+"^{commit}")
		if err != nil {
			if ctx.Err() != nil {
				return b, remove, ctx.Err()
			}
			return b, remove, fmt.Errorf("%q is not a revision of this repository", revision)
		}
		tree := filepath.Join(dir, label)
		// The worktree must be removed even after an interrupt, when ctx is cancelled.
		remove = func() error {
			ctx := context.WithoutCancel(ctx)
			if _, err := output(ctx, root, "git", "worktree", "remove", "--force", tree); err == nil {
				return nil
			}
			// If git worktree add was interrupted, git has no record of the worktree.
			err := os.RemoveAll(tree)
			_, prune := output(ctx, root, "git", "worktree", "prune")
			return errors.Join(err, prune)
		}
		if _, err := output(ctx, root, "git", "worktree", "add", "--detach", tree, commit); err != nil {
			return b, remove, errors.Join(err, ctx.Err())
		}
		root = tree
	}
	b = Binary{Path: filepath.Join(dir, label+".test"), Dir: filepath.Join(root, pkg)}
	if info, err := os.Stat(b.Dir); err != nil || !info.IsDir() {
		return b, remove, fmt.Errorf("revision %s has no folder %s", cmp.Or(revision, "(working tree)"), pkg)
	}
	if _, err := output(ctx, b.Dir, "go", "test", "-c", "-o", b.Path, "."); err != nil {
		return b, remove, err
	}
	return b, remove, nil
}

// output runs a command in dir and returns its trimmed standard output.
func output(ctx context.Context, dir string, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}
