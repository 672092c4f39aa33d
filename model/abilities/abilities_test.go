package abilities

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model"
)

// Every registered model has an entry, and its scores confirm every verdict.
func TestDecide(t *testing.T) {
	for _, spec := range model.Specs() {
		t.Run(spec.Name, func(t *testing.T) {
			findings, err := Decide(context.Background(), spec)
			require.NoError(t, err)
			assert.Len(t, findings, len(patterns))
		})
	}
}
