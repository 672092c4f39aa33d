package kg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
)

// labelsName is the file with readable labels.
const labelsName = "labels.tsv"

// ReadLabels reads the file labels.tsv, which may be compressed (.gz, .zst), in the folder of a
// data set. Each line has the identifier of an entity or a relation, a tab and the readable label.
// Identifiers that the data set does not use are allowed. Without the file, ReadLabels returns nil.
// Two such files are an error. An error names the file and the line.
func ReadLabels(ctx context.Context, dir string) (map[string]string, error) {
	if dir == "" {
		return nil, nil
	}
	path, err := input.Await(ctx, func() (string, error) {
		files, err := listFolder(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", nil
		case err != nil:
			return "", fmt.Errorf("reading the folder %s: %w", dir, text.Cause(err))
		}
		return files.find([]string{labelsName})
	})
	if err != nil || path == "" {
		return nil, err
	}
	labels := map[string]string{}
	err = newOpening().readFile(ctx, path, func(l *lines) error {
		var fields [2][]byte
		return l.records(func(line []byte) error {
			if err := splitFields(line, fields[:], "identifier and label"); err != nil {
				return err
			}
			identifier := string(fields[0])
			if _, known := labels[identifier]; known {
				return fmt.Errorf("duplicate identifier %.200q: an identifier has one label", identifier)
			}
			if err := checkLabel(fields[1]); err != nil {
				return err
			}
			labels[identifier] = string(fields[1])
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return labels, nil
}
