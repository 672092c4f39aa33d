// Package kgtest helps tests that use graphs.
package kgtest

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kg"
)

// Index returns the index of g.
func Index(t require.TestingT, g *kg.Graph) *kg.Index {
	x, err := kg.NewIndex(context.Background(), g)
	require.NoError(t, err)
	return x
}
