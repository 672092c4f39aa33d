package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/model"
)

// TestGoldenRanks ranks the checkpoints in testdata on every tier, with every screen and with
// several threads. The ranks must equal the golden ranks, which come from an independent Python
// program.
func TestGoldenRanks(t *testing.T) {
	data := filepath.Join("..", "..", "testdata")
	backends, err := kernel.Available()
	require.NoError(t, err)
	for _, name := range model.Names() {
		golden, err := os.ReadFile(filepath.Join(data, "ranks", name+".tsv"))
		require.NoError(t, err, "testdata/make.py writes the golden ranks of every model")
		for _, b := range backends {
			for i, screen := range []string{"auto", "float32", "int8", "int16"} {
				o := mquine(t, "eval", filepath.Join(data, "checkpoints", name), "--data",
					filepath.Join(data, "graph"),
					"--ranks", "-", "--backend", b.Tier.String(), "--screen", screen, "--threads", strconv.Itoa(i+1))
				if screen != "auto" && strings.Contains(o.stderr, "--screen "+screen+" is for dot products") {
					continue
				}
				require.Zero(t, o.status, o.stderr)
				assert.Equal(t, string(golden), o.stdout, "%s on %v with %s", name, b.Tier, screen)
			}
		}
	}
}
