package formats

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model"
)

// DGL-KE's options must be numbers, and for RotatE, whose phases depend on it, the dimension must be
// the width of the table of relations.
func TestDGLKEOptions(t *testing.T) {
	const d = 4
	for options, want := range map[string]string{
		`"RotatE", "gamma": 9.0, "hidden_dim": 4`:                "",
		`"RotatE", "gamma": 9.0, "emb_size": 4`:                  "",
		`"RotatE", "gamma": 9.0, "hidden_dim": 4, "emb_size": 9`: "",
		`"TransE", "hidden_dim": "4"`:                            "",
		`"SimplE", "gamma": "9"`:                                 "",
		`"RotatE", "gamma": 9.0, "hidden_dim": 400`: `option "hidden_dim" is 400, but the relations of RotatE in file ` +
			`have rows of 4 numbers: restore the options of the training`,
		`"RotatE", "gamma": 9.0, "emb_size": 5`: `option "emb_size" is 5, but the relations of RotatE in file ` +
			`have rows of 4 numbers: restore the options of the training`,
		`"RotatE", "gamma": 9.0, "hidden_dim": 4.9`: `option "hidden_dim" is 4.9, not a positive integer`,
		`"RotatE", "gamma": 9.0, "hidden_dim": "4", "emb_size": 4`: `option "hidden_dim" is the text "4", ` +
			`not a positive integer`,
		`"RotatE", "gamma": 9.0`:                    `option "hidden_dim" is missing`,
		`"RotatE", "hidden_dim": 4`:                 `option "gamma" is missing`,
		`"RotatE", "gamma": "9", "hidden_dim": 4`:   `option "gamma" is the text "9", not a number`,
		`"TransE", "gamma": "12", "hidden_dim": 16`: `option "gamma" is the text "12", not a number`,
	} {
		name, perEntity, perRelation := options[1:7], 1, 1
		switch name {
		case "RotatE":
			perEntity = 2
		case "SimplE":
			perEntity, perRelation = 2, 2
		}
		f := toolFolder(map[string][2]int{
			"entity": {toolEntities, perEntity * d}, "relation": {toolRelations, perRelation * d},
		})
		f.Path, f.Format, f.Metadata = t.TempDir(), dglke, map[string]string{}
		path := filepath.Join(f.Path, "config.json")
		require.NoError(t, os.WriteFile(path, []byte(`{"model_name": `+options+`}`), 0o644))
		_, err := f.readOptions("config.json")
		require.NoError(t, err)
		c, err := dglke.convert(f)
		if want != "" {
			assert.EqualError(t, err, path+": "+want, options)
			continue
		}
		require.NoError(t, err, options)
		if name == "RotatE" {
			assert.Equal(t, model.DefaultRange(9, d), c.Config.Hyper[model.EmbeddingRange])
		}
	}
}
