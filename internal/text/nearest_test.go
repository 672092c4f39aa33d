package text

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"FB15k", "fb15k-237", 4}, {"abc", "cab",
		2}} {
		assert.Equal(t, c.want, editDistance(c.a, c.b), "%q, %q", c.a, c.b)
	}
}

func TestNearest(t *testing.T) {
	words := []string{"umls", "wn18rr", "wn18", "wn11"}
	assert.Equal(t, []string{"wn18"}, Nearest("WN18", words, 1))
	assert.Equal(t, []string{"wn18", "wn11", "wn18rr", "umls"}, Nearest("wn18", words, 9))
	assert.Equal(t, []string{"wn18", "wn11"}, Nearest("wn1", words, 2), "words at the same distance keep their order")
	assert.Empty(t, Nearest("wn18", nil, 3))
}

func TestChoose(t *testing.T) {
	assert.Equal(t, "choose from umls and wn18", Choose("wn1", []string{"umls", "wn18"}))
	many := []string{"a", "b", "c", "d", "e", "f", "transe-l1", "transe-l2", "transe-l3", "x", "y"}
	assert.Equal(t, "did you mean transe-l1 or transe-l2", Choose("transe", many))
	assert.Equal(t, "choose from a, b, c, d, e, f, transe-l1, transe-l2, transe-l3, x and y", Choose("hinge", many))
}

func TestFold(t *testing.T) {
	words := []string{"complex", "transe-l1", "COMPLEX"}
	assert.Equal(t, "complex", Fold("ComplEx", words))
	assert.Equal(t, "COMPLEX", Fold("COMPLEX", words))
	assert.Equal(t, "TransE", Fold("TransE", words))
}

func TestSimilar(t *testing.T) {
	words := []string{"steroid", "eicosanoid", "Animal", "animals", "plant"}
	assert.Equal(t, []string{"steroid"}, Similar("steriod", words, 3))
	assert.Equal(t, []string{"Animal", "animals"}, Similar("animal", words, 3))
	assert.Equal(t, []string{"Animal"}, Similar("animal", words, 1))
	assert.Empty(t, Similar("xyz", words, 3))
	assert.Empty(t, Similar("xyz", nil, 3))

	long := strings.Repeat("x", 200)
	assert.Equal(t, []string{long}, Similar(long[1:], []string{long, "y" + long}, 3))
	assert.Empty(t, Similar("y"+long, []string{long}, 3))
}
