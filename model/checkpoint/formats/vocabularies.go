package formats

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/kg"
)

// vocabularyFiles names a pair of vocabulary files and their layout.
type vocabularyFiles struct {
	entities, relations string
	kg.VocabularyLayout
}

// The vocabulary files of the tools.
var (
	dictFiles   = vocabularyFiles{"entities.dict", "relations.dict", kg.VocabularyLayout{}}
	tsvFiles    = vocabularyFiles{"entities.tsv", "relations.tsv", kg.VocabularyLayout{}}
	delFiles    = vocabularyFiles{"entity_ids.del", "relation_ids.del", kg.VocabularyLayout{}}
	kbcFiles    = vocabularyFiles{"ent_id", "rel_id", kg.VocabularyLayout{LabelFirst: true}}
	openkeFiles = vocabularyFiles{
		"entity2id.txt", "relation2id.txt", kg.VocabularyLayout{LabelFirst: true, Count: true},
	}
	pykeenFiles = vocabularyFiles{
		"training_triples/entity_to_id.tsv.gz", "training_triples/relation_to_id.tsv.gz",
		kg.VocabularyLayout{Header: true},
	}

	allVocabularies = []vocabularyFiles{dictFiles, tsvFiles, delFiles, kbcFiles, openkeFiles, pykeenFiles}
)

// ReadVocabularies reads the labels of entities and relations: from the folder itself or, if it has
// none, from the given folder. The given folder may hold the vocabulary files of the tool or, if it
// has no others, of any other tool. If both folders have vocabularies, they must be equal.
func (f *Folder) ReadVocabularies(ctx context.Context, given string) error {
	own, err := f.ownVocabularies(ctx)
	if err != nil {
		return err
	}
	if own != nil {
		f.Entities, f.Relations, f.VocabularyDir = own.entities, own.relations, f.Path
	}
	if given == "" {
		if own == nil {
			return fmt.Errorf("%s has no vocabularies: copy %s into it, or name their folder with --vocab",
				f.Path, f.vocabularyNames())
		}
		return nil
	}
	other, err := f.givenVocabularies(ctx, given)
	switch {
	case err != nil:
		return err
	case own == nil:
		f.Entities, f.Relations, f.VocabularyDir = other.entities, other.relations, given
	case !slices.Equal(own.entities.Labels(), other.entities.Labels()) ||
		!slices.Equal(own.relations.Labels(), other.relations.Labels()):
		return fmt.Errorf("%s has its own vocabularies, and the vocabularies in %s differ from them: omit --vocab",
			f.Path, given)
	}
	return nil
}

// vocabularies is a pair of vocabularies.
type vocabularies struct{ entities, relations *kg.Vocabulary }

// vocabularyNames lists the names of the tool's vocabulary files.
func (f *Folder) vocabularyNames() string {
	var names []string
	for _, files := range f.Format.vocabularies {
		names = append(names, files.entities+" and "+files.relations)
	}
	return strings.Join(names, ", or ")
}

// ownVocabularies reads the vocabularies of the folder, from files or, if there are none, from the
// parameter file. It returns nil if there are none either.
func (f *Folder) ownVocabularies(ctx context.Context) (*vocabularies, error) {
	for _, files := range f.Format.vocabularies {
		if v, err := readPair(ctx, f.Path, files); v != nil || err != nil {
			return v, err
		}
	}
	if f.Format.labels == nil {
		return nil, nil
	}
	entities, relations := f.Format.labels(f)
	if entities == nil || relations == nil {
		return nil, nil
	}
	var v vocabularies
	var err error
	if v.entities, err = newVocabulary(entities); err == nil {
		v.relations, err = newVocabulary(relations)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return &v, nil
}

// givenVocabularies reads the vocabularies in the folder that the user names.
func (f *Folder) givenVocabularies(ctx context.Context, dir string) (*vocabularies, error) {
	for _, files := range f.Format.vocabularies {
		if v, err := readPair(ctx, dir, files); v != nil || err != nil {
			return v, err
		}
	}
	var found []vocabularyFiles
	for _, files := range allVocabularies {
		if exists(dir, files.entities) {
			found = append(found, files)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%s has no vocabularies: it needs %s", dir, f.vocabularyNames())
	case 1:
		return readPair(ctx, dir, found[0])
	}
	return nil, fmt.Errorf("%s has both %s and %s, which may number the entities differently: "+
		"copy the files that %s used into %s", dir, found[0].entities, found[1].entities, f.Format.Name, f.Path)
}

// readPair reads a pair of vocabulary files. It returns nil if dir lacks the entity file.
func readPair(ctx context.Context, dir string, files vocabularyFiles) (*vocabularies, error) {
	var v vocabularies
	var err error
	v.entities, err = readVocabulary(ctx, filepath.Join(dir, files.entities), files.VocabularyLayout)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v.relations, err = readVocabulary(ctx, filepath.Join(dir, files.relations), files.VocabularyLayout)
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// newVocabulary returns the vocabulary of a list of distinct labels.
func newVocabulary(labels []string) (*kg.Vocabulary, error) {
	v := kg.NewVocabulary()
	for i, label := range labels {
		if _, known := v.ID(label); known || label == "" {
			return nil, fmt.Errorf("label %d of its vocabulary, %.200q, is empty or occurs twice", i, label)
		}
		v.Add(label)
	}
	return v, nil
}

// readVocabulary reads a regular file. A folder from elsewhere may contain a named pipe, from which
// reading might never end.
func readVocabulary(ctx context.Context, path string, layout kg.VocabularyLayout) (*kg.Vocabulary, error) {
	info, err := input.Await(ctx, func() (fs.FileInfo, error) { return os.Stat(path) })
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file, as a vocabulary must be", path)
	}
	return kg.ReadVocabularyLayout(ctx, path, layout)
}
