package checkpoint

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model/checkpoint/internal/mapped"
)

// scoreTolerance bounds the differences between scores that float32 arithmetic explains, relative
// to the largest absolute score, or to 1 if all scores are smaller. The float32 scores of the tools
// in package formats differ by less. A different norm, order of coordinates or vocabulary changes
// scores by far more.
const scoreTolerance = 1e-5

// maxScoreLine limits the length of a line of scores, in bytes.
const maxScoreLine = 1 << 18

// CompareScores compares the model's scores with the scores in the file at path, which the program
// that wrote the checkpoint computed. It returns the number of scores and the largest difference.
// If float32 arithmetic does not explain that difference, it also returns an error that names the
// line.
//
// The file has lines of the form head<TAB>relation<TAB>tail<TAB>score, with labels. It may begin
// with a line that names the columns: head, relation, tail, score and others in any order. A column
// side says whether the program predicted the tail or the head. Without this column, it predicted
// the tail. The side matters only if the score depends on it, as with reciprocal relations.
func (c *Checkpoint) CompareScores(ctx context.Context, path string) (n int, largest float64, err error) {
	given, err := c.readScores(ctx, path)
	if err != nil {
		return 0, 0, err
	}
	defer fault.Guard().Catch(&err)
	backends, err := kernel.Available()
	if err != nil {
		return 0, 0, err
	}
	w := c.Model.NewWorker(backends[0])
	scale := 1.0
	var worst givenScore
	var score float64 // the checkpoint's score for worst
	for _, g := range given {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		q, answer := g.triple.Query(g.side)
		s := c.Model.Score(w.Reference(q, answer))
		if c.toolScore != nil {
			s = c.toolScore(s)
		}
		if d := math.Abs(s - g.score); d >= largest {
			largest, worst, score = d, g, s
		}
		scale = max(scale, math.Abs(g.score))
	}
	if most := scoreTolerance * scale; largest > most {
		err = fmt.Errorf("%s:%d: the score is %g, but the checkpoint gives (%s, %s, %s) the score %.9g: "+
			"the difference %.2g is larger than the %.2g that float32 arithmetic explains: "+
			"mquine misreads the checkpoint, or the scores belong to another checkpoint",
			path, worst.line, worst.score, c.Entities.Label(worst.triple.Head),
			c.Relations.Label(worst.triple.Relation), c.Entities.Label(worst.triple.Tail), score, largest, most)
	}
	return len(given), largest, err
}

// givenScore is a line of a file of scores.
type givenScore struct {
	line   int
	triple kg.Triple
	side   kg.Side
	score  float64
}

// scoreColumns are the columns of a file of scores. Only side may be missing.
var scoreColumns = []string{"head", "relation", "tail", "score", "side"}

func (c *Checkpoint) readScores(ctx context.Context, path string) (scores []givenScore, err error) {
	file, err := input.Open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, mapped.Reason(err))
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxScoreLine)
	at := []int{0, 1, 2, 3, -1} // the positions of scoreColumns
	width, n := 4, 0
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%s:%d: "+format, append([]any{path, n}, args...)...)
	}
	for lines.Scan() {
		n++
		fields := strings.Split(strings.TrimSuffix(lines.Text(), "\r"), "\t")
		has := func(name string) bool { return slices.Contains(fields, name) }
		if n == 1 && (has("score") || has("head") && has("relation") && has("tail")) {
			width = len(fields)
			for i, name := range scoreColumns {
				if at[i] = slices.Index(fields, name); at[i] < 0 && name != "side" {
					return nil, wrong("the columns have names, but none is called %s", name)
				}
			}
			continue
		}
		if len(fields) != width {
			return nil, wrong("%d columns instead of %d: a line has a head, a relation, a tail and a score, "+
				"separated by tabs", len(fields), width)
		}
		g := givenScore{line: n, side: kg.Tail}
		for i, p := range []struct {
			id   *int32
			from *kg.Vocabulary
			kind string
		}{
			{&g.triple.Head, c.Entities, "entity"}, {&g.triple.Relation, c.Relations, "relation"},
			{&g.triple.Tail, c.Entities, "entity"},
		} {
			label, known := fields[at[i]], false
			if *p.id, known = p.from.ID(label); !known {
				return nil, wrong("%s %.80q is not in the vocabulary of %s, which has %s and %s: give scores of the "+
					"same graph", p.kind, label, c.Path, text.Plural(c.Entities.Len(), "entity"),
					text.Plural(c.Relations.Len(), "relation"))
			}
		}
		g.score, err = strconv.ParseFloat(fields[at[3]], 64)
		if err != nil || math.IsNaN(g.score) || math.IsInf(g.score, 0) {
			return nil, wrong("%.40q is not a score", fields[at[3]])
		}
		if at[4] >= 0 {
			switch side := fields[at[4]]; side {
			case "tail":
			case "head":
				g.side = kg.Head
			default:
				return nil, wrong("side %.40q is neither tail nor head", side)
			}
		}
		scores = append(scores, g)
	}
	switch {
	case lines.Err() != nil:
		return nil, fmt.Errorf("reading %s: %w", path, mapped.Reason(lines.Err()))
	case len(scores) == 0:
		return nil, fmt.Errorf("%s has no scores", path)
	}
	return scores, nil
}
