package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/compressed"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/train/run"
)

// Read reads files that mquine eval or mquine compare wrote as JSON, and folders of training runs.
// It names each by the last part of its path, without .json and the extension of a compressed file.
// If two names would be equal, it names all by their whole paths.
func Read(ctx context.Context, paths []string) (*Page, error) {
	p := &Page{}
	names := namesOf(paths)
	for i, path := range paths {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = fmt.Errorf("there is no file or folder %s", path)
		case err != nil:
			err = fmt.Errorf("cannot read %s: %w", path, text.Cause(err))
		case info.IsDir():
			err = p.readRun(ctx, path, names[i])
		default:
			err = p.readFile(ctx, path, names[i])
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// namesOf returns a distinct name for each path, if the paths are distinct.
func namesOf(paths []string) []string {
	var names []string
	for _, path := range paths {
		name := filepath.Base(filepath.Clean(path))
		if abs, err := filepath.Abs(path); err == nil {
			name = filepath.Base(abs) // path may be "."
		}
		name = strings.TrimSuffix(compressed.Trim(name), ".json")
		if slices.Contains(names, name) {
			return paths
		}
		names = append(names, name)
	}
	return names
}

func (p *Page) readRun(ctx context.Context, dir, name string) error {
	if _, err := os.Stat(filepath.Join(dir, run.SearchFile)); err == nil {
		return fmt.Errorf("%s is the folder of a search: give the folder of a trial, such as %s",
			dir, run.TrialDir(dir, 1))
	}
	if _, err := os.Stat(filepath.Join(dir, run.ConfigFile)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not a run folder: it has no %s; give a run folder, or a file from "+
			"eval --json or compare --json", dir, run.ConfigFile)
	}
	h, err := run.ReadHistory(ctx, dir)
	if err != nil {
		return err
	}
	if len(h.Epochs) == 0 {
		return fmt.Errorf("%s has no log of a finished epoch: restore its log.jsonl, or continue the run with "+
			"mquine train --resume %[1]s", dir)
	}
	p.Runs = append(p.Runs, Run{name, h})
	return nil
}

func (p *Page) readFile(ctx context.Context, path, name string) error {
	data, err := compressed.ReadFile(ctx, path)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", path, text.Cause(err))
	}
	var file struct {
		Schema string `json:"schema"`
	}
	const foreign = "%s is not a file from eval --json or compare --json: give such a file, or a run folder"
	if err := json.Unmarshal(data, &file); err != nil {
		if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
			return fmt.Errorf(foreign, path)
		}
		return fmt.Errorf("%s is damaged: %w; write it again", path, err)
	}
	switch kind, _, _ := strings.Cut(file.Schema, "/"); kind {
	case "mquine.eval":
		r := &metrics.Report{}
		if err := decode(path, data, r, func() error { return checkEvaluation(r) }); err != nil {
			return err
		}
		p.Evaluations = append(p.Evaluations, Evaluation{name, r})
	case "mquine.compare":
		r := &metrics.ComparisonReport{}
		if err := decode(path, data, r, func() error { return checkComparison(r) }); err != nil {
			return err
		}
		p.Comparisons = append(p.Comparisons, Comparison{name, r})
	default:
		return fmt.Errorf(foreign, path)
	}
	return nil
}

// decode decodes a report and checks it.
func decode(path string, data []byte, report any, check func() error) error {
	err := json.Unmarshal(data, report)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return fmt.Errorf("%s is damaged: %s cannot be a %s; write it again", path, wrong.Field, wrong.Value)
	case err != nil:
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	if err := check(); err != nil {
		return fmt.Errorf("%s is damaged: %w; write it again", path, err)
	}
	return nil
}
