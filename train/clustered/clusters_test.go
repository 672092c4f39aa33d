package clustered

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/synth"
)

func TestPlanted(t *testing.T) {
	g, want, err := synth.Zipf(t.Context(), synth.Config{Entities: 1000, Seed: 3})
	require.NoError(t, err)
	clusters, count, err := clusterEntities(t.Context(), g, 1)
	require.NoError(t, err)
	assert.Equal(t, want, clusters)
	assert.Equal(t, 32, count)
}

// Labels that look like planted clusters by chance do not increase the number of clusters.
func TestNotPlanted(t *testing.T) {
	for _, label := range []string{"other", "g999999999_e1"} {
		g := &kg.Graph{Entities: kg.NewVocabulary("g0_e0", label), Relations: kg.NewVocabulary()}
		_, count, err := clusterEntities(t.Context(), g, 1)
		require.NoError(t, err)
		assert.Equal(t, 1, count)
	}
}

// Two kinds of entities with different relations never share a cluster, and the clusters have equal
// sizes.
func TestClustersByRole(t *testing.T) {
	const n = 200
	g := &kg.Graph{Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary("likes", "near")}
	for e := range 2 * n {
		g.Entities.Add(fmt.Sprint(e))
		triple := kg.Triple{Head: int32(e), Relation: 0, Tail: int32((e * 7) % n)}
		if e >= n {
			triple.Relation, triple.Tail = 1, int32(n+(e*3)%n)
		}
		g.Splits[kg.Train] = append(g.Splits[kg.Train], triple)
	}
	clusters, count, err := clusterEntities(t.Context(), g, 1)
	require.NoError(t, err)
	require.Equal(t, 20, count)
	sizes, kind := map[int32]int{}, map[int32]int{}
	for e, cluster := range clusters {
		sizes[cluster]++
		if e < n {
			kind[cluster]++
		}
	}
	for cluster, size := range sizes {
		assert.Equal(t, 20, size)
		assert.Contains(t, []int{0, size}, kind[cluster], "cluster %d mixes the kinds", cluster)
	}
	assert.Len(t, sizes, count)
}

func TestClustersOfNothing(t *testing.T) {
	g := &kg.Graph{Entities: kg.NewVocabulary(), Relations: kg.NewVocabulary()}
	clusters, count, err := clusterEntities(t.Context(), g, 1)
	require.NoError(t, err)
	assert.Empty(t, clusters)
	assert.Zero(t, count)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = clusterEntities(ctx, g, 1)
	assert.ErrorIs(t, err, context.Canceled)
}
