package kg

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/mquine/mquine/internal/text"
)

// Vocabulary numbers labels 0, 1, 2, … in the order in which they are added.
type Vocabulary struct {
	labels []string
	ids    map[string]int32
}

// NewVocabulary returns a vocabulary of the labels, numbered in order. A repeated label keeps its
// first number.
func NewVocabulary(labels ...string) *Vocabulary {
	v := newVocabulary(len(labels))
	for _, l := range labels {
		v.Add(l)
	}
	return v
}

// newVocabulary returns an empty vocabulary with memory for n labels.
func newVocabulary(n int) *Vocabulary {
	return &Vocabulary{labels: make([]string, 0, n), ids: make(map[string]int32, n)}
}

// Add returns the identifier of label. A label that is not in the vocabulary gets the next
// identifier.
func (v *Vocabulary) Add(label string) int32 {
	if id, ok := v.ids[label]; ok {
		return id
	}
	id := int32(len(v.labels))
	v.labels = append(v.labels, label)
	v.ids[label] = id
	return id
}

// ID returns the identifier of label and reports whether the vocabulary contains the label.
func (v *Vocabulary) ID(label string) (int32, bool) {
	id, ok := v.ids[label]
	return id, ok
}

// lookup is like ID, but takes a label in a read buffer. It does not allocate.
func (v *Vocabulary) lookup(label []byte) (int32, bool) {
	id, ok := v.ids[string(label)]
	return id, ok
}

// Find returns the identifier of a label. If v lacks the label, the error is an UnknownLabelError. It
// says that owner does not contain the label, and suggests similar labels. kind is "entity" or
// "relation".
func (v *Vocabulary) Find(owner, kind, label string) (int32, error) {
	if id, ok := v.ID(label); ok {
		return id, nil
	}
	return 0, &UnknownLabelError{
		Label:   label,
		message: fmt.Sprintf("%s has no %s %.200q%s", owner, kind, label, text.Suggestion(label, v.Labels())),
	}
}

// UnknownLabelError is the error about a label that a vocabulary lacks.
type UnknownLabelError struct {
	Label   string
	message string
}

func (e *UnknownLabelError) Error() string { return e.message }

// padded counts the labels with spaces at their ends that are labels without them, too. It also
// returns the first.
func (v *Vocabulary) padded() (n int, first string) {
	for _, label := range v.labels {
		if trimmed := strings.TrimSpace(label); len(trimmed) < len(label) {
			if _, ok := v.ID(trimmed); ok {
				first = cmp.Or(first, label)
				n++
			}
		}
	}
	return n, first
}

// decomposed counts the labels that are equal to another label in Unicode's normal form C, such as é
// written as one character and as e with an accent. Labels in this form do not count. It also returns the
// first.
func (v *Vocabulary) decomposed() (n int, first string) {
	composed := map[string]bool{}
	for _, label := range v.labels {
		if norm.NFC.IsNormalString(label) {
			continue
		}
		form := norm.NFC.String(label)
		if _, ok := v.ID(form); ok || composed[form] {
			first = cmp.Or(first, label)
			n++
		}
		composed[form] = true
	}
	return n, first
}

// Label returns the label of an identifier.
func (v *Vocabulary) Label(id int32) string { return v.labels[id] }

// Labels returns all labels in the order of their identifiers. Do not modify the slice.
func (v *Vocabulary) Labels() []string { return v.labels }

// Len returns the number of labels.
func (v *Vocabulary) Len() int { return len(v.labels) }

// Check returns an error if the text files of a data set or a checkpoint cannot contain a label.
func (v *Vocabulary) Check() error {
	for id, label := range v.labels {
		if err := checkLabel(label); err != nil {
			return fmt.Errorf("label %d, %.200q: %w", id, label, err)
		}
	}
	return nil
}

// maxLabel is the length in bytes of the longest label. Three such labels with their separators, or a
// label with its number, fit into a line that a reader accepts. Without this limit, a literal of
// N-Triples whose canonical form is longer than its line could be written but not read again.
const maxLabel = (maxLine - 64) / 3

// checkLabel returns an error if the text files of a data set cannot contain the label.
func checkLabel[T string | []byte](label T) error {
	s := string(label)
	switch {
	case s == "":
		return errors.New("empty label")
	case !utf8.ValidString(s):
		return errors.New("label is not valid UTF-8; convert the file to UTF-8")
	case strings.HasPrefix(s, "\ufeff"):
		// Readers skip the mark at the start of a file. Elsewhere, the mark is left over from
		// joining files.
		return errors.New("label starts with a byte order mark: remove it")
	case strings.ContainsAny(s, "\x00\t\r\n"):
		name := map[byte]string{0: "NUL character", '\t': "tab", '\r': "carriage return", '\n': "line feed"}
		return fmt.Errorf("label contains a %s: remove it, or write a space instead",
			name[s[strings.IndexAny(s, "\x00\t\r\n")]])
	case len(s) > maxLabel:
		return fmt.Errorf("label has %s bytes, more than the limit of %s: shorten it",
			text.Comma(len(s)), text.Comma(maxLabel))
	}
	return nil
}
