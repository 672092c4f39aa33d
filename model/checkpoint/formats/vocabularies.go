package formats

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

// vocabularyFiles names a pair of vocabulary files and their layout.
type vocabularyFiles struct {
	entities, relations string
	kg.VocabularyLayout
}

// These are the vocabulary files of the tools.
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
		kg.VocabularyLayout{Header: true, Quoted: true},
	}

	allVocabularies = []vocabularyFiles{dictFiles, tsvFiles, delFiles, kbcFiles, openkeFiles, pykeenFiles}
)

// ReadVocabularies reads the labels of entities and relations. It looks in the folder itself, then
// in the given folder or, if none is given, in the folder that the tool's options name. The given
// folder may hold the vocabulary files of the tool or, if they are missing, of any other tool. If
// both folders have vocabularies, they must be equal, unless ifMissing is set. An error about the given
// folder is a GivenError.
func (f *Folder) ReadVocabularies(ctx context.Context, given string, ifMissing bool) error {
	v, err := f.ownVocabularies(ctx)
	f.VocabularyDir = f.Path
	switch {
	case err != nil:
		return err
	case v == nil && given != "":
		f.VocabularyDir = given
		v, err = f.Format.givenVocabularies(ctx, given)
	case v == nil:
		v, err = f.vocabulariesElsewhere(ctx)
	case given != "" && !ifMissing:
		err = f.Format.same(ctx, f.Path, v, given)
	}
	if err != nil {
		return err
	}
	f.Entities, f.Relations = v.entities, v.relations
	return nil
}

// SameVocabularies returns an error if the vocabularies of the checkpoint in dir, which is in
// mquine's own format, differ from the vocabularies in the folder given. The error is a GivenError.
func SameVocabularies(ctx context.Context, dir string, entities, relations *kg.Vocabulary, given string) error {
	own := &Format{Name: "mquine", vocabularies: []vocabularyFiles{dictFiles, tsvFiles}}
	return own.same(ctx, dir, &vocabularies{entities, relations}, given)
}

// same returns an error if the vocabularies of the checkpoint in dir differ from the vocabularies in
// the folder given.
func (f *Format) same(ctx context.Context, dir string, v *vocabularies, given string) error {
	other, err := f.givenVocabularies(ctx, given)
	if err == nil && !v.equal(other) {
		err = GivenError{fmt.Errorf("%s has its own vocabularies, and the vocabularies in %s differ from them: "+
			"omit --vocab", dir, given)}
	}
	return err
}

// GivenError is an error about a given folder of vocabularies (--vocab). The checkpoint may be sound.
type GivenError struct{ error }

// Unwrap returns the cause.
func (e GivenError) Unwrap() error { return e.error }

// vocabularies is a pair of vocabularies.
type vocabularies struct{ entities, relations *kg.Vocabulary }

// equal reports whether the labels of v and other are the same, in the same order.
func (v *vocabularies) equal(other *vocabularies) bool {
	return slices.Equal(v.entities.Labels(), other.entities.Labels()) &&
		slices.Equal(v.relations.Labels(), other.relations.Labels())
}

// vocabularyNames names the tool's vocabulary files.
func (f *Format) vocabularyNames() string {
	files := f.vocabularies[0]
	return files.entities + " and " + files.relations
}

// find reads the tool's vocabulary files in dir. It returns nil if there are none.
func (f *Format) find(ctx context.Context, dir string) (*vocabularies, error) {
	for _, files := range f.vocabularies {
		if v, err := readPair(ctx, dir, files); v != nil || err != nil {
			return v, err
		}
	}
	return nil, nil
}

// ownVocabularies reads the vocabularies of the folder, from files or, if there are none, from the
// parameter file. It returns nil if neither has any. If both have them, they must be equal, unless
// mquine cannot use the labels in the parameter file.
func (f *Folder) ownVocabularies(ctx context.Context) (*vocabularies, error) {
	v, err := f.Format.find(ctx, f.Path)
	if err != nil || f.Format.labels == nil {
		return v, err
	}
	entities, relations := f.Format.labels(f)
	if entities == nil || relations == nil {
		return v, nil
	}
	inside := &vocabularies{}
	if inside.entities, err = newVocabulary(entities); err == nil {
		inside.relations, err = newVocabulary(relations)
	}
	names := f.Format.vocabularyNames()
	switch {
	case v == nil && err != nil:
		return nil, fmt.Errorf("%s: %w; write the corrected labels to %s in this folder", f.Path, err, names)
	case v == nil:
		return inside, nil
	case err == nil && !v.equal(inside):
		return nil, fmt.Errorf("%s: the labels in the checkpoint of %s differ from the labels in %s in this folder: "+
			"remove these two files if they belong to another model", f.Path, f.Format.Name, names)
	}
	return v, nil
}

// vocabulariesElsewhere reads the vocabularies in the folder that the tool's options name, and sets
// VocabularyDir.
func (f *Folder) vocabulariesElsewhere(ctx context.Context) (*vocabularies, error) {
	names := f.Format.vocabularyNames()
	if f.Format.elsewhere == nil {
		return nil, fmt.Errorf("%s has no vocabularies: copy %s into it, or name their folder with --vocab",
			f.Path, names)
	}
	where, dir, err := f.Format.elsewhere(f)
	if err != nil {
		return nil, err
	}
	if dir != "" {
		f.VocabularyDir = dir
		if v, err := f.Format.find(ctx, dir); v != nil || err != nil {
			return v, err
		}
	}
	return nil, fmt.Errorf("%s has no %s, and neither does %s (%.200q): "+
		"copy them into it, or name their folder with --vocab", f.Path, names, where, dir)
}

// givenVocabularies reads the vocabularies in the folder that the user names.
func (f *Format) givenVocabularies(ctx context.Context, dir string) (_ *vocabularies, err error) {
	defer func() {
		if err != nil {
			err = GivenError{err}
		}
	}()
	info, err := input.Await(ctx, func() (fs.FileInfo, error) { return os.Stat(dir) })
	if err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder: give --vocab the folder of the vocabularies, %s",
			dir, filepath.Dir(dir))
	}
	if v, err := f.find(ctx, dir); v != nil || err != nil {
		return v, err
	}
	var found []vocabularyFiles
	for _, files := range allVocabularies {
		if exists(dir, files.entities) {
			found = append(found, files)
		}
	}
	switch len(found) {
	case 0:
		if !exists(dir, ".") {
			return nil, fmt.Errorf("there is no folder %s, which should hold the vocabularies", dir)
		}
		return nil, fmt.Errorf("%s has no vocabularies: it needs %s", dir, f.vocabularyNames())
	case 1:
		return readPair(ctx, dir, found[0])
	}
	return nil, fmt.Errorf("%s has both %s and %s, which may number the entities differently: "+
		"leave only the files that %s used", dir, found[0].entities, found[1].entities, f.Name)
}

// readPair reads a pair of vocabulary files. It returns nil if dir lacks the entity file.
func readPair(ctx context.Context, dir string, files vocabularyFiles) (*vocabularies, error) {
	entities, err := readVocabulary(ctx, filepath.Join(dir, files.entities), files.VocabularyLayout)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, files.relations)
	relations, err := readVocabulary(ctx, path, files.VocabularyLayout)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: the vocabularies are the files %s and %s",
			path, files.entities, files.relations)
	}
	return &vocabularies{entities, relations}, err
}

// newVocabulary returns the vocabulary of a list of distinct labels that mquine can save.
func newVocabulary(labels []string) (*kg.Vocabulary, error) {
	v := kg.NewVocabulary()
	for i, label := range labels {
		if _, known := v.ID(label); known || label == "" {
			return nil, fmt.Errorf("label %d of its vocabulary, %.200q, is empty or occurs twice", i, label)
		}
		v.Add(label)
	}
	return v, v.Check()
}

// readVocabulary reads a vocabulary, which must be a regular file.
func readVocabulary(ctx context.Context, path string, layout kg.VocabularyLayout) (*kg.Vocabulary, error) {
	if err := CheckRegular(ctx, path); err != nil {
		return nil, err
	}
	return kg.ReadVocabularyLayout(ctx, path, layout)
}

// CheckRegular returns an error if the file of a vocabulary exists and is not a regular file. A
// downloaded folder may contain a named pipe, for example, and reading from it might never end.
func CheckRegular(ctx context.Context, path string) error {
	info, err := input.Await(ctx, func() (fs.FileInfo, error) { return os.Stat(path) })
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file, as a vocabulary must be", path)
	}
	return ctx.Err() // other errors occur again when the file is read
}
