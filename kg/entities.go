package kg

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/mquine/mquine/internal/text"
)

// ReadList reads distinct labels of v, one in each line, and returns their identifiers. kind is
// "entity" or "relation". The file may be compressed (.gz, .zst). An error names the file and the
// line. If v lacks a label, the error says that owner, such as "the checkpoint", has no such label.
func ReadList(ctx context.Context, path, owner, kind string, v *Vocabulary) (ids []int32, err error) {
	seen := map[int32]int{} // the line of each label
	err = ReadRecords(ctx, path, func(n int, line string) error {
		id, err := v.Find(owner, kind, line)
		if err != nil {
			return err
		}
		if first := seen[id]; first > 0 {
			return fmt.Errorf("%s %.200q is also on line %d: list it once", kind, line, first)
		}
		seen[id] = n
		ids = append(ids, id)
		return nil
	})
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("%s is empty: write one %s in each line", path, kind)
	}
	return ids, err
}

// ReadCandidates reads the candidates of queries. Each line lists the candidates of one query, as
// labels of v separated by tabs. Labels may repeat, but line i must not list answers[i], the target
// of query i. For each query, the result holds a list of identifiers in ascending order. The file
// may be compressed (.gz, .zst). An error names the file and the line. If v lacks a label, the
// error says that owner has no such label.
func ReadCandidates(ctx context.Context, path, owner string, v *Vocabulary, answers []int32) ([][]int32, error) {
	lists, labels := make([][]int32, 0, len(answers)), 0
	for _, label := range v.labels {
		labels += len(label) + len("\t")
	}
	err := newOpening().readFile(ctx, path, func(l *lines) error {
		l.longest = max(l.longest, 2*labels) // a line may list all entities, and some more than once
		next := func() ([]byte, error) { return l.notBlank("no candidates: list at least one") }
		return l.each(next, func(line []byte) error {
			if len(lists) == len(answers) {
				return fmt.Errorf("there are only %s to rank: write one line for each, in the order of the split",
					text.Plural(len(answers), "triple"))
			}
			list := make([]int32, 0, 1+bytes.Count(line, []byte{'\t'}))
			for label := range bytes.SplitSeq(line, []byte{'\t'}) {
				id, ok := v.lookup(label)
				if !ok {
					_, err := v.Find(owner, "entity", string(label))
					return err
				}
				if id == answers[len(lists)] {
					return fmt.Errorf("%.200q is the true answer to this query: list only its competitors", label)
				}
				list = append(list, id)
			}
			slices.Sort(list)
			lists = append(lists, list)
			return nil
		})
	})
	if err == nil && len(lists) < len(answers) {
		err = fmt.Errorf("%s has %s, but there are %s to rank: write one line for each, in the order of the split",
			path, text.Plural(len(lists), "line"), text.Plural(len(answers), "triple"))
	}
	if err != nil {
		return nil, err
	}
	return lists, nil
}
