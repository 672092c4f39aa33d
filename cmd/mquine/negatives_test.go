package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/compressed"
	"github.com/mquine/mquine/kg"
)

// negativeFiles draws 7 negatives for each query of the test split, by side. It writes them as text
// and as .npy files, whose integers are the labels of the entities.
func negativeFiles(t *testing.T, w workplace, g *kg.Graph) (lists [2][][]string, texts, arrays [2]string) {
	const count = 7
	rng := rand.New(rand.NewPCG(49, 5))
	test := g.Splits[kg.Test]
	for _, side := range []kg.Side{kg.Tail, kg.Head} {
		header := fmt.Sprintf("{'descr': '<i4', 'fortran_order': False, 'shape': (%d, %d), }", len(test), count)
		array := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), 0)
		array = append(array, header...)
		var text strings.Builder
		for _, triple := range test {
			_, answer := triple.Query(side)
			var list []string
			for len(list) < count {
				e := int32(rng.IntN(g.Entities.Len()))
				if e == answer {
					continue
				}
				list = append(list, g.Entities.Label(e))
				array = binary.LittleEndian.AppendUint32(array, uint32(must1(strconv.Atoi(g.Entities.Label(e)))))
			}
			lists[side] = append(lists[side], list)
			fmt.Fprintln(&text, strings.Join(list, "\t"))
		}
		texts[side], arrays[side] = w.path(side.String()+".tsv"), w.path(side.String()+".npy")
		require.NoError(t, os.WriteFile(texts[side], []byte(text.String()), 0o644))
		require.NoError(t, os.WriteFile(arrays[side], array, 0o644))
	}
	return lists, texts, arrays
}

// newNumberedWorkplace returns a workplace whose entities have integers as labels, and its graph.
func newNumberedWorkplace(t *testing.T) (workplace, *kg.Graph) {
	w := newWorkplace(t)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	w.data, w.model = w.path("numbered"), w.path("numbered-checkpoint")
	require.NoError(t, os.Mkdir(w.data, 0o755))
	for split, triples := range g.Splits {
		var text strings.Builder
		for _, triple := range triples {
			fmt.Fprintf(&text, "%d\t%s\t%d\n", 1000-triple.Head, g.Relations.Label(triple.Relation), 1000-triple.Tail)
		}
		require.NoError(t, os.WriteFile(w.data+"/"+kg.Split(split).String()+".txt", []byte(text.String()), 0o644))
	}
	succeed(t, "init", "--model", "complex", "--dim", "8", "--data", w.data, "--out", w.model)
	g, err = kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	return w, g
}

// The metrics among given negatives follow the definition of OGB's Evaluator: with the negatives'
// scores n and the target's score p, the rank is 1 + (|n > p| + |n ≥ p|)/2.
func TestNegatives(t *testing.T) {
	w, g := newNumberedWorkplace(t)
	lists, texts, arrays := negativeFiles(t, w, g)
	ranks := w.path("ranks.tsv")
	var reports [2]string
	for i, files := range [][2]string{texts, arrays} {
		o := succeed(t, "eval", w.model, "--data", w.data, "--protocol", "ogb", "--tail-negatives", files[kg.Tail],
			"--head-negatives", files[kg.Head], "--ranks", ranks, "--json", w.path("e.json"))
		assert.Contains(t, o.stdout, "Protocol ogb: both sides in one average, filter none, realistic ties")
		assert.Contains(t, o.stdout, "7 given negatives")
		text, err := os.ReadFile(w.path("e.json"))
		require.NoError(t, err)
		var report struct {
			Protocol, Screen string
			Restrictions     struct{ Tail, Head struct{ SHA256 string } }
			Results          []struct {
				N         int
				MRR, AMR  float64
				Hits1     float64 `json:"hits@1"`
				MRRLimits any     `json:"mrr_limit_oracle"`
			}
		}
		require.NoError(t, json.Unmarshal(text, &report))
		require.Len(t, report.Results, 1)
		assert.Equal(t, "ogb", report.Protocol)
		assert.Equal(t, "float64", report.Screen)
		assert.Len(t, report.Restrictions.Head.SHA256, 64)

		lines, scores := scoresOf(t, w, ranks)
		require.Len(t, lines, 80)
		var mrr, mr, hits float64
		for k, f := range lines {
			side, target := kg.Tail, f[3]
			if f[0] == "head" {
				side, target = kg.Head, f[1]
			}
			above, atLeast := 0, 0
			for _, e := range lists[side][k%40] {
				if scores[k][e] > scores[k][target] {
					above++
				}
				if scores[k][e] >= scores[k][target] {
					atLeast++
				}
			}
			require.Equal(t, []string{strconv.Itoa(above), strconv.Itoa(atLeast - above), "8"}, f[4:7])
			rank := 1 + float64(above+atLeast)/2
			mrr, mr = mrr+1/rank/80, mr+rank/80
			if rank <= 1 {
				hits += 1.0 / 80
			}
		}
		assert.InDelta(t, mrr, report.Results[0].MRR, 1e-12)
		assert.InDelta(t, mr/4.5, report.Results[0].AMR, 1e-12) // a random rank among 8 is 4.5 on average
		assert.InDelta(t, hits, report.Results[0].Hits1, 1e-12)
		assert.Nil(t, report.Results[0].MRRLimits)
		reports[i] = o.stdout
	}
	assert.Equal(t, reports[0], reports[1])

	latex := succeed(t, "eval", w.model, "--data", w.data, "--protocol", "ogb", "--tail-negatives", texts[kg.Tail],
		"--head-negatives", texts[kg.Head], "--format", "latex").stdout
	assert.Contains(t, latex, "Candidates: 7 given negatives. Protocol: ogb.")
	all := succeed(t, "eval", w.model, "--data", w.data, "--side", "tail", "--tail-negatives", texts[kg.Tail],
		"--filter", "none,all", "--format", "csv").stdout
	assert.Contains(t, all, ",tail,all,realistic,40,")
}

func TestNegativesBadInput(t *testing.T) {
	w, g := newNumberedWorkplace(t)
	_, texts, arrays := negativeFiles(t, w, g)
	short := w.path("short.npy")
	array, err := os.ReadFile(arrays[kg.Tail])
	require.NoError(t, err)
	array = []byte(strings.Replace(string(array), "(40, 7)", "(35, 8)", 1))
	require.NoError(t, os.WriteFile(short, array, 0o644))
	shorter := slices.Clone(array)
	foreign := w.path("foreign.npy")
	binary.LittleEndian.PutUint32(array[len(array)-4:], 5)
	array = []byte(strings.Replace(string(array), "(35, 8)", "(40, 7)", 1))
	require.NoError(t, os.WriteFile(foreign, array, 0o644))
	few := w.path("few.tsv")
	require.NoError(t, os.WriteFile(few, []byte("1000\n"), 0o644))
	write := func(name, contents string) string {
		require.NoError(t, os.WriteFile(w.path(name), []byte(contents), 0o644))
		return w.path(name)
	}
	var packed bytes.Buffer
	require.NoError(t, compressed.Write(&packed, "a.npy.gz", func(w io.Writer) error {
		_, err := w.Write(array)
		return err
	}))
	empty := w.path("empty.npy")
	header := array[:len(array)-40*7*4]
	require.NoError(t, os.WriteFile(empty, []byte(strings.Replace(string(header), "(40, 7)", "(40, 0)", 1)), 0o644))
	eval := []string{"eval", w.model, "--data", w.data}
	for want, flags := range map[string][]string{
		"empty.npy has shape [40 0], so its rows are empty":            {"--side", "tail", "--tail-negatives", empty},
		"short.npy has shape [35 8], but there are 40 triples to rank": {"--side", "tail", "--tail-negatives", short},
		"row 39, counted from 0: the checkpoint has no entity with the label 5": {
			"--side", "tail", "--tail-negatives", foreign,
		},
		"few.tsv has 1 line, but there are 40 triples to rank": {"--side", "head", "--head-negatives", few},
		"a.npy.gz is a compressed NumPy array: decompress it first": {
			"--side", "tail", "--tail-negatives", write("a.npy.gz", packed.String()),
		},
		"a.pt is a ZIP archive, such as torch.save and numpy.savez write: save the array with numpy.save": {
			"--side", "tail", "--tail-negatives", write("a.pt", "PK\x03\x04..."),
		},
		"a.pkl is a pickle: save the array with numpy.save": {
			"--side", "tail", "--tail-negatives", write("a.pkl", "\x80\x02..."),
		},
		// The first bytes, and not the name, say that it is an array.
		"short.NPY has shape [35 8], but": {"--side", "tail", "--tail-negatives", write("short.NPY", string(shorter))},
		"short.bin has shape [35 8], but": {"--side", "tail", "--tail-negatives", write("short.bin", string(shorter))},
		"absent.npy":                      {"--side", "tail", "--tail-negatives", w.path("absent.npy")},
	} {
		mquine(t, append(eval, flags...)...).requireSentence(t, exitFailed, want)
	}
	for want, flags := range map[string][]string{
		"--side both also ranks heads: add --head-negatives FILE": {"--tail-negatives", texts[kg.Tail]},
		"--side tail does not rank heads: leave out --head-negatives": {
			"--side", "tail", "--tail-negatives", texts[kg.Tail], "--head-negatives", texts[kg.Head],
		},
		"--protocol ogb ranks among given candidates": {"--protocol", "ogb"},
		"--protocol ogb also ranks heads: add --head-negatives FILE, or choose another protocol": {
			"--protocol", "ogb", "--tail-negatives", texts[kg.Tail],
		},
		"a list of negatives does not apply to the estimates of --sample": {
			"--sample", "5", "--tail-negatives", texts[kg.Tail],
		},
		"--protocol ogb does not apply to the estimates of --sample": {"--protocol", "ogb", "--sample", "5"},
		"--candidates does not apply to a ranking among given negatives: leave it out (see mquine eval --help)": {
			"--protocol", "ogb", "--candidates", "observed",
		},
		"--screen does not apply to a ranking among given negatives": {
			"--side", "tail", "--tail-negatives", texts[kg.Tail], "--screen", "int8",
		},
		"--candidates does not apply to a ranking among given negatives: leave it out": {
			"--side", "tail", "--tail-negatives", texts[kg.Tail], "--candidates", "observed",
		},
		"a list of negatives does not apply to --side relation, whose candidates are relations: leave it out": {
			"--side", "relation", "--tail-negatives", texts[kg.Tail],
		},
		"a restriction of the candidates does not apply to --side relation, whose candidates are relations: leave": {
			"--side", "relation", "--candidates", "observed",
		},
		"--peak does not apply to --side relation, which computes exact scores on the processor: leave it out": {
			"--side", "relation", "--peak",
		},
	} {
		mquine(t, append(eval, flags...)...).requireSentence(t, exitUsage, want)
	}
}
