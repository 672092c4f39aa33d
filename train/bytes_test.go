package train_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/kerneltest"
	"github.com/mquine/mquine/train"
	"github.com/mquine/mquine/train/internal/traintest"
)

var update = flag.Bool("update", false, "write testdata/trained.txt")

// On the generic tier, recipes give the parameters that they gave when testdata/trained.txt was
// written, byte for byte, on every platform and with every GOAMD64.
func TestTrainedBytes(t *testing.T) {
	m := train.Machine{Backend: kerneltest.Generic(t), Threads: 2}
	require.Equal(t, kernel.Generic, m.Backend.Tier)
	g := traintest.RandomGraph(24, 3, 100, 3)
	var got strings.Builder
	recipes := traintest.Recipes()
	for _, name := range slices.Sorted(maps.Keys(recipes)) {
		c := traintest.Recipe(recipes[name])
		if c.CheckBackend(m.Backend) != nil {
			continue
		}
		c.Batch = 30
		tr, err := train.NewTrainer(t.Context(), c, g, m)
		require.NoError(t, err)
		for range c.Epochs {
			_, err := tr.Epoch(t.Context())
			require.NoError(t, err)
		}
		fmt.Fprintf(&got, "%s  %s\n", digest(t, tr.Model()), name)
	}
	file := filepath.Join("testdata", "trained.txt")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String(), "go test ./train -run TestTrainedBytes -update accepts new bytes")
}
