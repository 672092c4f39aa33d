package model

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Names and titles are distinct. A title spells the first word of the name.
func TestTitles(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Specs() {
		assert.False(t, seen[s.Name], s.Name)
		assert.False(t, seen[s.Title], s.Title)
		seen[s.Name], seen[s.Title] = true, true
		first := regexp.MustCompile("^[a-z0-9]+").FindString(s.Name)
		assert.Contains(t, strings.ToLower(s.Title), first, s.Name)
	}
}
