package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/kg"
)

// vocabularyFiles lists the possible pairs of vocabulary files, entities first. Each line of the
// files has the form id<TAB>label.
var vocabularyFiles = [][2]string{{"entities.dict", "relations.dict"}, {entitiesName, relationsName}}

// errNoVocabulary means that a folder contains none of these pairs of files.
var errNoVocabulary = errors.New("no vocabulary")

// readVocabularies reads the vocabularies in the folder dir.
func readVocabularies(ctx context.Context, dir string) (entities, relations *kg.Vocabulary, err error) {
	for _, names := range vocabularyFiles {
		paths := [2]string{filepath.Join(dir, names[0]), filepath.Join(dir, names[1])}
		var made [2]*kg.Vocabulary
		var missing []string
		for i, path := range paths {
			if err := checkRegular(ctx, path); err != nil {
				return nil, nil, err
			}
			made[i], err = kg.ReadVocabulary(ctx, path)
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
			return nil, nil, fmt.Errorf("%s is missing: the vocabularies are the files %s and %s",
				missing[0], names[0], names[1])
		}
	}
	return nil, nil, errNoVocabulary
}

// checkRegular returns an error if path exists and is not a regular file. A checkpoint from
// elsewhere may name any folder, and reading a named pipe, for example, might never end.
func checkRegular(ctx context.Context, path string) error {
	info, err := input.Await(ctx, func() (fs.FileInfo, error) { return os.Stat(path) })
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file, as a vocabulary must be", path)
	}
	return ctx.Err() // reading the file will report other errors
}

// readVocabulariesGiven reads the vocabularies in the folder that VocabularyFolder names.
func readVocabulariesGiven(ctx context.Context, dir string) (entities, relations *kg.Vocabulary, err error) {
	entities, relations, err = readVocabularies(ctx, dir)
	if errors.Is(err, errNoVocabulary) {
		err = fmt.Errorf("%s has no vocabularies: it needs entities.dict and relations.dict", dir)
	}
	return entities, relations, err
}

// checkVocabularies compares the vocabularies of a checkpoint with the folder that VocabularyFolder
// names, if any.
func (c *Checkpoint) checkVocabularies(ctx context.Context, o options) error {
	if o.vocabulary == "" {
		return nil
	}
	entities, relations, err := readVocabulariesGiven(ctx, o.vocabulary)
	if err != nil {
		return err
	}
	if !slices.Equal(entities.Labels(), c.Entities.Labels()) ||
		!slices.Equal(relations.Labels(), c.Relations.Labels()) {
		return fmt.Errorf("%s has its own vocabularies, and the vocabularies in %s differ from them: omit --vocab",
			c.Path, o.vocabulary)
	}
	return nil
}
