package checkpoint

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
)

// scoreTolerance bounds the differences between scores that float32 arithmetic explains, relative
// to the largest absolute score, or to 1 if all scores are smaller. The float32 scores of the tools
// in package formats differ by less. A different norm, order of coordinates or vocabulary changes
// scores by far more.
const scoreTolerance = 1e-5

// CompareScores compares the model's scores with the scores in the file at path, which the program
// that wrote the checkpoint computed. It returns the number of scores and the largest difference.
// If float32 arithmetic does not explain that difference, it also returns an error that names the
// line.
//
// The file has lines of the form head<TAB>relation<TAB>tail<TAB>score, with labels, and may be
// compressed (.gz, .zst). It may begin with a line that names the columns: head, relation, tail,
// score and others in any order. A column side says whether the program predicted the tail or the
// head. Without this column, it predicted the tail. The side matters only if the score depends on it,
// as with reciprocal relations.
func (c *Checkpoint) CompareScores(ctx context.Context, path string) (n int, largest float64, err error) {
	given, err := c.readScores(ctx, path)
	if err != nil {
		return 0, 0, err
	}
	defer fault.Guard().Catch(&err)
	backend, err := kernel.New()
	if err != nil {
		return 0, 0, err
	}
	w := c.Model.NewWorker(backend)
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
	at := []int{0, 1, 2, 3, -1} // the positions of scoreColumns
	width := 4
	err = kg.ReadRecords(ctx, path, func(n int, line string) error {
		fields := strings.Split(line, "\t")
		has := func(name string) bool { return slices.Contains(fields, name) }
		if n == 1 && (has("score") || has("head") && has("relation") && has("tail")) {
			width = len(fields)
			for i, name := range scoreColumns {
				if at[i] = slices.Index(fields, name); at[i] < 0 && name != "side" {
					return fmt.Errorf("the columns have names, but none is called %s", name)
				}
				if at[i] >= 0 && slices.Contains(fields[at[i]+1:], name) {
					return fmt.Errorf("two columns are called %s: keep one", name)
				}
			}
			return nil
		}
		if len(fields) != width {
			return fmt.Errorf("%s instead of %d: a line has a head, a relation, a tail and a score, "+
				"separated by tabs", text.Plural(len(fields), "column"), width)
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
				return fmt.Errorf("%s %.80q is not in the vocabulary of %s, which has %s and %s: give scores of the "+
					"same graph", p.kind, label, c.Path, text.Plural(c.Entities.Len(), "entity"),
					text.Plural(c.Relations.Len(), "relation"))
			}
		}
		var err error
		g.score, err = strconv.ParseFloat(fields[at[3]], 64)
		if err != nil || math.IsNaN(g.score) || math.IsInf(g.score, 0) {
			return fmt.Errorf("%.40q is not a score", fields[at[3]])
		}
		if at[4] >= 0 {
			switch side := fields[at[4]]; side {
			case "tail":
			case "head":
				g.side = kg.Head
			default:
				return fmt.Errorf("side %.40q is neither tail nor head", side)
			}
		}
		scores = append(scores, g)
		return nil
	})
	if err == nil && len(scores) == 0 {
		err = fmt.Errorf("%s has no scores", path)
	}
	return scores, err
}
