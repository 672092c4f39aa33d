package main

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/abilities"
)

func TestAbilities(t *testing.T) {
	patterns := len(abilities.Patterns())
	all := succeed(t, "abilities").stdout
	for _, name := range model.Names() {
		assert.Regexp(t, `(?m)^`+name+`( +(yes|no)\*?)+$`, all)
	}
	assert.Regexp(t, `(?m)^mquine( +yes){11}$`, all)
	assert.Regexp(t, `(?m)^mquade( +yes){10} +no$`, all)
	one := succeed(t, "abilities", "transe-l1").stdout
	assert.Regexp(t, `(?m)^symmetry +no +h \+ r = t`, one)
	assert.NotContains(t, one, "*")
	assert.Contains(t, succeed(t, "abilities", "transd-l1").stdout, "* The table in the MQuinE paper")
	for line := range strings.Lines(all + one) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, line)
	}

	var list abilityList
	require.NoError(t, json.Unmarshal([]byte(succeed(t, "abilities", "--json", "-").stdout), &list))
	assert.Equal(t, "mquine.abilities/1", list.Schema)
	assert.Len(t, list.Findings, len(model.Names())*patterns)
	lines, err := csv.NewReader(strings.NewReader(succeed(t, "abilities", "ote", "--format", "csv").stdout)).ReadAll()
	require.NoError(t, err)
	assert.Len(t, lines, 1+patterns)
	assert.Equal(t, []string{"ote", "1-N", "no", "", "A head and a relation determine the tail."}, lines[6])
	markdown := succeed(t, "abilities", "cp", "--format", "markdown").stdout
	assert.Equal(t, 2+patterns, strings.Count(markdown, "\n"))
}

func TestAbilitiesUsage(t *testing.T) {
	mquine(t, "abilities", "transe").
		requireSentence(t, exitUsage, `unknown model "transe": did you mean transe-l1 or transe-l2`)
	assert.Equal(t, succeed(t, "abilities", "cp").stdout, succeed(t, "abilities", "CP").stdout)
	mquine(t, "abilities", "mquine", "mode").requireSentence(t, exitUsage, `unexpected argument "mode"`)
	assert.Contains(t, succeed(t, "__complete", "abilities", "").stdout, "mquade\n")
}
