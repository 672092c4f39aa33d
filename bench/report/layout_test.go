package report

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/layouttest"
)

// TestLayout checks that the page of the repository's own results fits screens of every width, in
// both colour schemes.
func TestLayout(t *testing.T) {
	var page bytes.Buffer
	require.NoError(t, Write(t.Context(), &page, "../results"))
	for _, dark := range []bool{false, true} {
		for _, l := range layouttest.Measure(t, page.String(), dark, 390, 768, 1400) {
			l.RequireFits(t)
			assert.Positive(t, l.Charts, l.Width)
			assert.GreaterOrEqual(t, l.Smallest, 9.0, l.Width)
		}
	}
}
