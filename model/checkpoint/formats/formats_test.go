package formats

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A user may name a file of the authors' code. LibKGE, whose files have the same ending, keeps the
// files in a folder with its own vocabularies.
func TestFindFile(t *testing.T) {
	for _, c := range []struct {
		name, beside string
		want         *Format
	}{
		{"my_TuckER.pt", "entities.dict", tucker}, {"my_TuckER.pt", "", tucker},
		{"my_TuckER.pt", "entity_ids.del", libkge}, {"tuck.pt", "entities.dict", libkge},
		{"umls_conve_0.1.model", "", conve}, {"other.model", "", nil}, {"20.chkpnt", "", simplE},
		{"tucker.ckpt", "", openke},
	} {
		dir := t.TempDir()
		for _, name := range []string{c.name, c.beside} {
			if name != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
			}
		}
		var want []*Format
		if c.want != nil {
			want = []*Format{c.want}
		}
		assert.Equal(t, names(want), names(Find(filepath.Join(dir, c.name))), c)
	}
}

// names returns the names of formats.
func names(formats []*Format) (list []string) {
	for _, f := range formats {
		list = append(list, f.Name)
	}
	return list
}
