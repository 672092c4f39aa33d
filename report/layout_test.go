package report

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mquine/mquine/internal/layouttest"
)

// TestLayout checks that the page fits screens of every width, even with long names. Nothing may
// cover anything else, and the text of charts must be legible.
func TestLayout(t *testing.T) {
	for _, test := range []struct {
		prefix      string
		dark        bool
		ground, ink string
	}{
		{"", false, "rgb(255, 255, 255)", "rgb(27, 31, 36)"},
		{"https://example.org/a/rather/long/name/without/any/space#", true, "rgb(16, 20, 26)", "rgb(228, 233, 239)"},
	} {
		for _, l := range layouttest.Measure(t, written(t, full(t, test.prefix)), test.dark, 390, 768, 1400) {
			l.RequireFits(t)
			assert.Equal(t, []string{test.ground, test.ink}, []string{l.Ground, l.Ink}, l.Width)
			assert.Equal(t, 11, l.Charts, l.Width)
			assert.GreaterOrEqual(t, l.Smallest, 10.0, l.Width)
		}
	}
}
