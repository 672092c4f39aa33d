package text

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Nearest returns the n words with the smallest edit distance to word, nearest first, for messages
// such as "did you mean". Words at the same distance keep their order. If there are fewer than n
// words, Nearest returns all of them.
func Nearest(word string, words []string, n int) []string {
	type candidate struct {
		word     string
		distance int
	}
	list := make([]candidate, len(words))
	for i, w := range words {
		list[i] = candidate{w, editDistance(word, w)}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	nearest := make([]string, min(n, len(list)))
	for i := range nearest {
		nearest[i] = list[i].word
	}
	return nearest
}

// longest is the length in bytes of the longest words that Similar compares. The time for an edit
// distance is proportional to the product of the lengths, and labels can be long literals.
const longest = 200

// Similar is like Nearest but leaves out words whose edit distance exceeds two fifths of the longer
// word's length. No word of more than 200 bytes is similar to another.
func Similar(word string, words []string, n int) []string {
	var similar []string
	for _, w := range words {
		longer := max(len(word), len(w))
		if longer > longest {
			continue
		}
		most := 2 * longer / 5
		// Comparing lengths first skips most of a large vocabulary.
		if max(len(word)-len(w), len(w)-len(word)) <= most && editDistance(word, w) <= most {
			similar = append(similar, w)
		}
	}
	return Nearest(word, similar, n)
}

// editDistance returns the Levenshtein distance of a and b, in bytes and ignoring case.
func editDistance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// Fold returns the element of words that equals word in any case, or word itself if there is none.
func Fold(word string, words []string) string {
	if slices.Contains(words, word) {
		return word
	}
	for _, w := range words {
		if strings.EqualFold(w, word) {
			return w
		}
	}
	return word
}

// Suggestion returns the end of an error about a word that is not in words, such as
// "; did you mean a, b", or "" if no word is similar. It quotes words that begin or end with a space.
func Suggestion(word string, words []string) string {
	similar := Similar(word, words, 3)
	if len(similar) == 0 {
		return ""
	}
	for i, w := range similar {
		if w != strings.TrimSpace(w) {
			similar[i] = strconv.Quote(w)
		}
	}
	return "; did you mean " + strings.Join(similar, ", ")
}

// Choose returns text for an error about a word that is not in words. There must be at least two
// words. If there are many, and some are similar, the text names only these.
func Choose(word string, words []string) string {
	const many = 10
	if similar := Similar(word, words, 2); len(words) > many && len(similar) > 0 {
		return "did you mean " + Join(similar, "or")
	}
	return "choose from " + Join(words, "and")
}

// Join returns text such as "a, b and c". There must be at least one word.
func Join(words []string, conjunction string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " " + conjunction + " " + words[last]
}
