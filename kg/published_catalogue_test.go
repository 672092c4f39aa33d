package kg_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/catalogue"
)

func TestPublishedNumbersAreTheCatalogues(t *testing.T) {
	want := make(map[string][kg.NumSplits]int)
	for _, d := range catalogue.All() {
		want[d.Name] = [kg.NumSplits]int{d.Triples(kg.Train), d.Triples(kg.Valid), d.Triples(kg.Test)}
	}
	assert.Equal(t, want, kg.Published)
}
