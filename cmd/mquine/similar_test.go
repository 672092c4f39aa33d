package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSimilar compares the lists with lists from the exported vectors.
func TestSimilar(t *testing.T) {
	w := newWorkplace(t)
	out := w.path("vectors")
	succeed(t, "export", w.model, "--to", "word2vec", out)
	for _, test := range []struct {
		file  string
		flags []string
	}{{"entities", nil}, {"relations", []string{"--relations"}}} {
		contents := must1(os.ReadFile(filepath.Join(out, test.file+".bin")))
		var n, width int
		_, err := fmt.Sscanf(string(contents), "%d %d\n", &n, &width)
		require.NoError(t, err)
		_, rest, _ := bytes.Cut(contents, []byte("\n"))
		vectors := map[string][]float64{}
		var names []string
		for range n {
			name, entries, _ := bytes.Cut(rest, []byte(" "))
			names = append(names, string(bytes.TrimSpace(name)))
			for i := range width {
				x := math.Float32frombits(binary.LittleEndian.Uint32(entries[4*i:]))
				vectors[names[len(names)-1]] = append(vectors[names[len(names)-1]], float64(x))
			}
			rest = entries[4*width:]
		}
		dot := func(a, b string) (sum float64) {
			for i := range vectors[a] {
				sum += vectors[a][i] * vectors[b][i]
			}
			return sum
		}
		for by, measure := range map[string]func(a, b string) float64{
			"dot":    dot,
			"cosine": func(a, b string) float64 { return dot(a, b) / math.Sqrt(dot(a, a)*dot(b, b)) },
		} {
			args := append([]string{"similar", w.model, names[0], names[1], "-k", "3", "--by", by, "--format", "csv"},
				test.flags...)
			rows, err := csv.NewReader(strings.NewReader(succeed(t, args...).stdout)).ReadAll()
			require.NoError(t, err)
			require.Equal(t, []string{"of", "rank", "similar", "label", by}, rows[0])
			at := 1
			for _, name := range names[:2] {
				others := slices.DeleteFunc(slices.Clone(names), func(other string) bool { return other == name })
				slices.SortFunc(others, func(a, b string) int {
					return cmp.Compare(measure(name, b), measure(name, a))
				})
				for i, other := range others[:min(3, len(others))] {
					require.Equal(t, name, rows[at][0])
					require.Equal(t, strconv.Itoa(i+1), rows[at][1])
					require.InDelta(t, measure(name, other), number64(t, rows[at][4]), 1e-5)
					at++
				}
			}
			require.Len(t, rows, at)
		}
	}
}

func TestSimilarLabelsAndErrors(t *testing.T) {
	w := newWorkplace(t)
	labels := []byte("person_00\tAnna\nperson_01\tBo\n")
	require.NoError(t, os.WriteFile(filepath.Join(w.data, "labels.tsv"), labels, 0o644))
	o := succeed(t, "similar", w.model, "person_00", "--data", w.data, "-k", "1000")
	assert.Contains(t, o.stdout, "similar to person_00 (Anna)\n")
	assert.Equal(t, 3+59, strings.Count(o.stdout, "\n"))
	for sentence, args := range map[string][]string{
		"give a checkpoint and at least one label":                        {},
		`--by "euclid": choose from cosine, dot and comparison`:           {"person_00", "--by", "euclid"},
		`the checkpoint has no entity "person00"; did you mean person_00`: {"person00"},
		`the checkpoint has no relation "person_00"; it is an entity: leave out --relations`: {
			"person_00", "--relations",
		},
		`the checkpoint has no entity "lives_in"; it is a relation: add --relations`: {
			"lives_in",
		},
		`no entity "Bo"; this is the label of person_01: give an identifier`: {"Bo", "--data", w.data},
		"model mquine has no distance between two entities: use the cosine":  {"person_00", "--by", "comparison"},
		"the comparison of a model does not apply to relations": {"lives_in", "--relations", "--by",
			"comparison"},
		"data set folder " + w.path("none") + ": no such file or directory": {"person_00", "--data", w.path("none")},
	} {
		status := exitFailed
		if strings.HasPrefix(sentence, "give") || strings.HasPrefix(sentence, "--by") {
			status = exitUsage
		}
		mquine(t, append([]string{"similar", w.model}, args...)...).requireSentence(t, status, sentence)
	}
	mquine(t, "similar", w.model, "-zebra").
		requireSentence(t, exitUsage, "unknown flag -z; write -- before labels that begin with -")
	mquine(t, "similar", w.model, "--", "-zebra").
		requireSentence(t, exitFailed, `the checkpoint has no entity "-zebra"`)
}
