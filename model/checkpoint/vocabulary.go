package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/mquine/mquine/kg"
)

// vocabularyFiles are the pairs of files that a folder may hold, entities and relations, lines
// id<TAB>label all of them.
var vocabularyFiles = [][2]string{{"entities.dict", "relations.dict"}, {entitiesName, relationsName}}

// errNoVocabulary is for a folder that holds none of them.
var errNoVocabulary = errors.New("no vocabulary")

// readVocabularies reads the vocabularies in the folder dir.
func readVocabularies(dir string) (entities, relations *kg.Vocabulary, err error) {
	for _, names := range vocabularyFiles {
		paths := [2]string{filepath.Join(dir, names[0]), filepath.Join(dir, names[1])}
		var made [2]*kg.Vocabulary
		var missing []string
		for i, path := range paths {
			made[i], err = kg.ReadVocabulary(path)
			if errors.Is(err, fs.ErrNotExist) {
				missing = append(missing, path)
			} else if err != nil {
				return nil, nil, err
			}
		}
		switch len(missing) {
		case 0:
			return made[0], made[1], nil
		case 1:
			return nil, nil, fmt.Errorf("%s is missing: a vocabulary is the files %s and %s", missing[0], names[0], names[1])
		}
	}
	return nil, nil, errNoVocabulary
}

// readVocabulariesGiven reads the folder that VocabularyFolder names.
func readVocabulariesGiven(dir string) (entities, relations *kg.Vocabulary, err error) {
	entities, relations, err = readVocabularies(dir)
	if errors.Is(err, errNoVocabulary) {
		err = fmt.Errorf("%s holds no vocabulary: it needs entities.dict and relations.dict", dir)
	}
	return entities, relations, err
}

// checkVocabularies compares the vocabularies of a checkpoint with those that the caller named.
func (c *Checkpoint) checkVocabularies(o options) error {
	if o.vocabulary == "" {
		return nil
	}
	entities, relations, err := readVocabulariesGiven(o.vocabulary)
	if err != nil {
		return err
	}
	if !slices.Equal(entities.Labels(), c.Entities.Labels()) || !slices.Equal(relations.Labels(), c.Relations.Labels()) {
		return fmt.Errorf("%s has vocabularies of its own, and those in %s are others: leave the second (--vocab) away", c.Path, o.vocabulary)
	}
	return nil
}
