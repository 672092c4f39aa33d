package formats

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
// none, from the folder given. A given folder may hold the vocabulary files of any tool.
func (f *Folder) ReadVocabularies(ctx context.Context, given string) error {
	found, err := f.readVocabularies(ctx, f.Path, f.Format.vocabularies)
	if err != nil || found {
		return err
	}
	if f.Format.labels != nil {
		if entities, relations := f.Format.labels(f); entities != nil && relations != nil {
			f.VocabularyDir = f.Path
			if f.Entities, err = newVocabulary(entities); err == nil {
				f.Relations, err = newVocabulary(relations)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", f.Path, err)
			}
			return err
		}
	}
	var names []string
	for _, files := range f.Format.vocabularies {
		names = append(names, files.entities+" and "+files.relations)
	}
	if given == "" {
		return fmt.Errorf("%s has no vocabularies: copy %s into it, or name their folder with --vocab",
			f.Path, strings.Join(names, ", or "))
	}
	if found, err = f.readVocabularies(ctx, given, allVocabularies); err == nil && !found {
		err = fmt.Errorf("%s has no vocabularies: it needs %s", given, strings.Join(names, ", or "))
	}
	return err
}

// readVocabularies reads the first pair of files that dir has.
func (f *Folder) readVocabularies(ctx context.Context, dir string, pairs []vocabularyFiles) (found bool, err error) {
	for _, files := range pairs {
		entities, err := readVocabulary(ctx, filepath.Join(dir, files.entities), files.VocabularyLayout)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		relations, err := readVocabulary(ctx, filepath.Join(dir, files.relations), files.VocabularyLayout)
		if err != nil {
			return false, err
		}
		f.Entities, f.Relations, f.VocabularyDir = entities, relations, dir
		return true, nil
	}
	return false, nil
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
		return nil, fmt.Errorf("%s is not a regular file, which a vocabulary must be", path)
	}
	return kg.ReadVocabularyLayout(ctx, path, layout)
}
