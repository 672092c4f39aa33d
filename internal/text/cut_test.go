package text

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"", 0, ""}, {"a", 0, "…"}, {"ab", 1, "…"}, {"ab", 2, "ab"}, {"abc", 2, "a…"},
		{"äöü", 3, "äöü"}, {"äöüß", 3, "äö…"},
		{"東京都", 6, "東京都"}, {"東京都", 5, "東京…"}, {"東京都", 4, "東…"},
	} {
		assert.Equal(t, c.want, Cut(c.text, c.columns), "%q in %d columns", c.text, c.columns)
	}
}
