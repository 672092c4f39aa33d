package text

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPairs(t *testing.T) {
	digest := strings.Repeat("0123456789abcdef", 4)
	assert.Equal(t, "name    value\n東京    東京\na\\nb    c\\td\nsha256  "+digest, Pairs([][2]string{
		{"name", "value"}, {"東京", "東京"}, {"a\nb", "c\td"}, {"sha256", digest}}))
	// 14 and 64 columns fit, but 15 and 64 do not.
	assert.Equal(t, "inverse_weight  0.5\nsha256          "+digest, Pairs([][2]string{
		{"inverse_weight", "0.5"}, {"sha256", digest}}))
	assert.Equal(t, "entities_sha256\n  \""+digest+"\"\nin\n  a"+strings.Repeat(" word", 15)+
		"\nnote             a"+strings.Repeat(" word", 12)+"\n                 word word word word", Pairs([][2]string{
		{"entities_sha256", `"` + digest + `"`},
		{"in", "a" + strings.Repeat(" word", 15)}, {"note", "a" + strings.Repeat(" word", 16)}}))

	// Names share a column of at most 40.
	short, long := strings.Repeat("x", 40), strings.Repeat("x", 41)
	assert.Equal(t, short+"  1\n"+long+"\n  2\nn"+strings.Repeat(" ", 41)+"3", Pairs([][2]string{
		{short, "1"}, {long, "2"}, {"n", "3"}}))
	assert.Empty(t, Pairs(nil))
}
