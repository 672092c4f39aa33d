package lint

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

var (
	sampleSize = flag.Int("sample", 0, "number of sentences that TestSample prints")
	sampleSeed = flag.Uint64("seed", 1, "seed of the sample")
)

// sentenceEnd matches the end of a sentence within a passage.
var sentenceEnd = regexp.MustCompile(`[.:?]\s+|\n\s*\n|\n\s*[-*|#]\s*`)

// TestSample prints sentences that are drawn at random from comments, strings and documents, for
// an editor to read. Tables and code are left out.
//
//	go test ./internal/lint -run TestSample -v -sample 60 -seed 7
func TestSample(t *testing.T) {
	if *sampleSize == 0 {
		t.Skip("set -sample to the number of sentences")
	}
	var all []string
	for _, f := range sources(t, ".go", ".md", ".sh", ".yaml", ".html", ".cu", ".cuh", "Makefile", ".ci/run") {
		for _, p := range passages(t, f) {
			text, from := p.text.String(), 0
			for _, at := range append(sentenceEnd.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
				sentence := strings.Join(strings.Fields(text[from:at[1]]), " ")
				prose := strings.Count(sentence, " ") >= 4 && !strings.ContainsAny(sentence, "|¶")
				if prose && !strings.Contains(sentence, "``") {
					all = append(all, fmt.Sprintf("%s:%d: %s", f.name, p.line(from), sentence))
				}
				from = at[1]
			}
		}
	}
	rng := rand.New(rand.NewPCG(*sampleSeed, 0))
	for _, i := range rng.Perm(len(all))[:min(*sampleSize, len(all))] {
		t.Log(all[i])
	}
}
