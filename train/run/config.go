package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/train/internal/workdir"
	"github.com/mquine/mquine/train/recipe"
)

// ConfigFile is the file that contains the data set and the recipe of a run.
const ConfigFile = "config.yaml"

// DataKey is the key of the data set in ConfigFile.
const DataKey = "data"

// Create creates the folder of a new run, with ConfigFile in it. The folder must not exist. g is
// the data set, which kg.Open opens under the name data.
func Create(dir, data string, g *kg.Graph, r recipe.Recipe) error {
	if err := r.CheckData(g); err != nil {
		return err
	}
	text, err := configText(data, r)
	if err != nil {
		return err
	}
	return workdir.Create(dir, map[string][]byte{ConfigFile: text})
}

// configText returns the contents of ConfigFile.
func configText(data string, r recipe.Recipe) ([]byte, error) {
	text, err := DataLine(data)
	return append(text, r.YAML()...), err
}

// DataLine returns the name or the folder of a data set as YAML, with a comment. It converts the
// path of a folder to an absolute path.
func DataLine(data string) (line []byte, err error) {
	if kg.IsFolder(data) {
		if data, err = filepath.Abs(data); err != nil {
			return nil, err
		}
	}
	name, err := json.Marshal(data) // a JSON string is also a YAML string; text.JSON escapes control characters
	return fmt.Appendf(nil, "# the data set: its name, or its folder\n%s: %s\n", DataKey, text.JSON(name)), err
}

// notRun returns the error for a folder that is missing or not the folder of a run.
func notRun(dir string) error {
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("run folder %s does not exist", dir)
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is not a folder: give the folder of a run", dir)
	}
	if whole, err := filepath.Abs(dir); err == nil {
		parent := filepath.Dir(whole)
		if _, err := os.Stat(filepath.Join(parent, ConfigFile)); err == nil {
			return fmt.Errorf("%s is not a run folder, but a folder in one: give %s", dir, parent)
		}
	}
	return fmt.Errorf("%s is not a run folder: it has no %s", dir, ConfigFile)
}

// ReadRecipe reads the recipe and the data set of the run in a folder.
func ReadRecipe(ctx context.Context, dir string) (r recipe.Recipe, data string, err error) {
	path := filepath.Join(dir, ConfigFile)
	file, err := input.Open(ctx, path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return r, "", notRun(dir)
	case err != nil:
		return r, "", fmt.Errorf("cannot read %s: %w", path, text.Cause(err))
	}
	defer file.Close()
	r = recipe.Default()
	others, err := r.Read(file, path, DataKey)
	if err != nil {
		return r, "", err
	}
	if others[DataKey] == "" {
		return r, "", fmt.Errorf("%s: the key %s, which names the data set, is missing", path, DataKey)
	}
	return r, others[DataKey], nil
}
