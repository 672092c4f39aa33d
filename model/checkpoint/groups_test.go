package checkpoint

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/fixture"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
)

// TestGroupFixtures opens folders that the code of OTE and of HousE wrote, and compares the scores
// on both sides with the scores that this code printed. OTE orthogonalises its matrices in float32.
func TestGroupFixtures(t *testing.T) {
	ote := func(scale float64) map[string]float64 {
		return map[string]float64{model.Gamma: 6, model.Group: 4, model.Scale: scale}
	}
	house := func(projections, translation, limit float64) map[string]float64 {
		hyper := map[string]float64{
			model.Gamma: 6, model.Group: 4, model.Reflections: 4, model.ProjectionLimit: limit,
		}
		if projections != 0 {
			hyper[model.Projections] = projections
		}
		if translation != 0 {
			hyper[model.Translation] = translation
		}
		return hyper
	}
	for name, hyper := range map[string]map[string]float64{
		"ote-abs": ote(model.AbsoluteScale), "ote-exp": ote(model.ExponentialScale),
		"house-r": house(0, 0, 0.5), "house-r-plus": house(0, 1, 0.5), "house": house(1, 0, 0.5),
		"house-plus": house(2, 1, 0.6),
	} {
		t.Run(name, func(t *testing.T) {
			dir := fixture.Dir(t, name+"-umls")
			c, err := Open(t.Context(), dir)
			require.NoError(t, err)
			defer c.Close()
			assert.Equal(t, 32, c.Model.Config().Dim)
			assert.Equal(t, hyper, c.Model.Config().Hyper)
			assert.Equal(t, "umls", c.Dataset)
			require.Len(t, c.Notes, 1)
			assert.Contains(t, c.Notes[0], "the best validated step")

			text, err := os.ReadFile(filepath.Join(dir, "scores.tsv"))
			require.NoError(t, err)
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			header := strings.Split(lines[0], "\t")
			require.Len(t, lines, 41)
			w := c.Model.NewWorker(kerneltest.Best(t))
			for _, line := range lines[1:] {
				fields := strings.Split(line, "\t")
				id := func(v *kg.Vocabulary, column int) int32 {
					id, known := v.ID(fields[column])
					require.True(t, known, fields[column])
					return id
				}
				triple := kg.Triple{Head: id(c.Entities, 1), Relation: id(c.Relations, 2), Tail: id(c.Entities, 3)}
				for side, column := range map[kg.Side]string{kg.Tail: "score_tail_batch", kg.Head: "score_head_batch"} {
					printed, err := strconv.ParseFloat(fields[slices.Index(header, column)], 64)
					require.NoError(t, err)
					q, answer := triple.Query(side)
					assert.InDelta(t, printed, c.Model.Score(w.Reference(q, answer)), 1e-5, "%v %v", side, triple)
				}
			}
		})
	}
}
