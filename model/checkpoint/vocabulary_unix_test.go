//go:build unix

package checkpoint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Open refuses a named pipe in place of a vocabulary without waiting for a writer, whether the user
// or the checkpoint names the folder.
func TestOpenRefusesANamedPipe(t *testing.T) {
	replaceByPipe := func(path string) {
		require.NoError(t, os.RemoveAll(path))
		require.NoError(t, unix.Mkfifo(path, 0o644))
	}
	refused := func(dir, path string, options ...Option) {
		_, err := Open(t.Context(), dir, options...)
		assert.EqualError(t, err, path+" is not a regular file, as a vocabulary must be")
	}
	for _, name := range []string{entitiesName, relationsName} {
		dir := small().write(t)
		path := filepath.Join(dir, name)
		replaceByPipe(path)
		refused(dir, path)
	}
	for _, name := range []string{"entities.dict", "relations.dict"} {
		f := rotateSmall()
		own := f.write(t)
		replaceByPipe(filepath.Join(own, name))
		refused(own, filepath.Join(own, name))

		// The pipe is in a folder that the user names, or in one that only the checkpoint names.
		f.entities, f.relations = "", ""
		refused(f.write(t), filepath.Join(own, name), VocabularyFolder(own))
		f.options["data_path"] = own
		refused(f.write(t), filepath.Join(own, name))
	}
}
