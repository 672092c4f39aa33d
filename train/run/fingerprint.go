package run

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/mquine/mquine/kg"
)

// Fingerprint identifies the contents of a data set. For each split and each vocabulary, it holds
// the number of entries and the SHA-256 of the entries in order, such as "1592 e3b0c4…". Splits are
// hashed as labels, so a change to one file changes only that file's part.
type Fingerprint map[string]string

// dataParts are the parts of a data set, in the order in which a difference is reported.
var dataParts = []struct{ key, name, entries string }{
	{kg.Train.String(), "train split", "triples"},
	{kg.Valid.String(), "valid split", "triples"},
	{kg.Test.String(), "test split", "triples"},
	{"entities", "entity vocabulary", "labels"},
	{"relations", "relation vocabulary", "labels"},
}

// FingerprintOf returns the fingerprint of a data set.
func FingerprintOf(g *kg.Graph) Fingerprint {
	f := Fingerprint{}
	for s := range kg.NumSplits {
		if g.Has(s) {
			f[s.String()] = summary(len(g.Splits[s]), labelsOf(g, g.Splits[s]))
		}
	}
	for key, v := range map[string]*kg.Vocabulary{"entities": g.Entities, "relations": g.Relations} {
		f[key] = summary(v.Len(), slices.Values(v.Labels()))
	}
	return f
}

// labelsOf yields the labels of the head, the relation and the tail of each triple.
func labelsOf(g *kg.Graph, triples []kg.Triple) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, t := range triples {
			if !yield(g.Entities.Label(t.Head)) || !yield(g.Relations.Label(t.Relation)) ||
				!yield(g.Entities.Label(t.Tail)) {
				return
			}
		}
	}
}

// summary returns the number of entries and the SHA-256 of their labels, each followed by a
// newline.
func summary(n int, labels iter.Seq[string]) string {
	const full = 1 << 15
	h := sha256.New()
	buffer := make([]byte, 0, 2*full)
	for label := range labels {
		buffer = append(append(buffer, label...), '\n') // labels have no newline
		if len(buffer) > full {
			_, _ = h.Write(buffer) // never an error
			buffer = buffer[:0]
		}
	}
	_, _ = h.Write(buffer)
	return fmt.Sprintf("%d %x", n, h.Sum(nil))
}

// Check returns an error if now differs from f. The error contains two texts: where is the folder
// of the data set, and began is the run or search that began with f.
func (f Fingerprint) Check(now Fingerprint, where, began string) error {
	differs := func(format string, args ...any) error {
		return fmt.Errorf("the data set in %s has changed since %s began: %s; restore it, or start again in another "+
			"folder",
			where, began, fmt.Sprintf(format, args...))
	}
	// Compare the numbers first: if a split lost triples, the vocabularies may have changed too.
	for _, p := range dataParts {
		switch before, after := entries(f[p.key]), entries(now[p.key]); {
		case after == before:
		case after == "":
			return differs("the %s is missing", p.name)
		case before == "":
			return differs("there was no %s", p.name)
		default:
			return differs("the %s has %s %s but had %s", p.name, after, p.entries, before)
		}
	}
	for _, p := range dataParts {
		if f[p.key] != now[p.key] {
			return differs("the %s has %s %s, but not the same ones in the same order",
				p.name, entries(now[p.key]), p.entries)
		}
	}
	return nil
}

// entries returns the number of entries in a summary, or "" if there is no summary.
func entries(summary string) string {
	number, _, _ := strings.Cut(summary, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return ""
	}
	return humanize.Comma(n)
}
