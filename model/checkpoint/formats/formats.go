// Package formats reads the checkpoints of other tools.
//
// A source file for each tool declares its [Format]: how to recognise a folder of the tool, how to
// open its parameters, and how they become the parameters of a model of package model. [All] lists
// the formats. Package checkpoint uses this list; programs call checkpoint.Open.
//
// Nothing in a folder is ever executed. Float32 tables in the layout of package model stay in the
// mapped file. Other tables are converted. If their elements are not float32, a note says so.
package formats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint/npy"
	"github.com/mquine/mquine/model/checkpoint/pickle"
	"github.com/mquine/mquine/model/checkpoint/torch"
)

// Format describes the checkpoints of a tool.
type Format struct {
	// Name is the short name, such as libkge. Tool names the tool with its repository.
	Name, Tool string
	// Protocol names the protocol of the tool's evaluation in package metrics. It is empty if the
	// format belongs to no evaluation.
	Protocol string
	// Files describes in one line the files that a folder holds.
	Files string
	// Is reports whether a folder, or a file that the user names, certainly belongs to the tool. It
	// examines the names of the files and, for some tools, the training options. It may be nil.
	Is func(path string) bool
	// Ending, if not empty, is the ending of files that each hold one checkpoint, such as ".pt". A
	// user may name such a file instead of its folder. Unless part is set, a folder with such a file
	// may belong to the tool, if it belongs to no other.
	Ending string
	// part, if not empty, occurs in the names of these files, in any case. It is in lower case.
	part string
	// open opens the parameters.
	open func(f *Folder) error
	// vocabularies finds the labels of entities and relations; see ReadVocabularies.
	vocabularies []vocabularyFiles
	// elsewhere returns another folder dir that may hold the vocabularies, or "". where says, for
	// messages, what names that folder.
	elsewhere func(f *Folder) (where, dir string, err error)
	// labels returns the labels that the parameter files hold, if any. Labels in vocabulary files
	// must be equal to them, and replace them only if mquine cannot use them; see newVocabulary.
	labels func(f *Folder) (entities, relations []string)
	// convert returns the model in an open folder whose vocabularies have been read.
	convert func(f *Folder) (*Converted, error)
}

// All lists the formats. The first format whose Is recognises a folder reads it, so a stray file of a
// later format does not matter.
var All = []*Format{
	exported, kbc, dura, ote, house, hake, rotate, expressive, dglke, pykeen, libkge, tucker, conve, simplE, openke,
}

// Names returns the names of the formats.
func Names() (names []string) {
	for _, f := range All {
		names = append(names, f.Name)
	}
	return names
}

// Lookup returns the format with a name, or nil.
func Lookup(name string) *Format {
	i := slices.IndexFunc(All, func(f *Format) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return All[i]
}

// Folder is an open folder of another tool.
type Folder struct {
	Path   string
	Format *Format
	// Metadata holds what the tool says about the model, as text.
	Metadata map[string]string
	// Tensors holds the parameters under the tool's names.
	Tensors []Tensor
	// Files holds the open files with the parameters, in the order in which they were opened.
	Files []File
	// Entities and Relations are the labels. ReadVocabularies sets them.
	Entities, Relations *kg.Vocabulary
	// VocabularyDir is the folder of the vocabularies.
	VocabularyDir string

	ctx   context.Context // of Open
	file  string          // the name of the file that the user chose, or ""
	value any             // the value in a torch file
}

// File is an open, mapped file with parameters.
type File interface {
	Bytes() []byte
	Mark(ctx context.Context) error
	Verify(ctx context.Context) error
	Close() error
}

// Tensor is a tensor in a file.
type Tensor struct {
	Path, Name string
	// Type is the type of the elements, such as float32.
	Type  string
	Shape []int
	// Values returns the elements as float32, in row-major order: the memory of the mapped file if
	// possible, otherwise a converted copy. It is nil if the tensor is expanded: if it repeats the
	// elements of its storage.
	Values func() []float32
}

// rows returns the number of rows of a table. width returns the number of elements of a row, which
// may have several axes.
func (t Tensor) rows() int {
	if len(t.Shape) == 0 {
		return 1
	}
	return t.Shape[0]
}

func (t Tensor) width() int {
	n := 1
	for _, extent := range t.Shape[min(1, len(t.Shape)):] {
		n *= extent
	}
	return n
}

// Converted is a model made of the parameters of a folder.
type Converted struct {
	// Config lacks the numbers of entities and relations, which follow from the vocabularies.
	Config model.Config
	// Parameters holds the tensors of the model, under the names of package model.
	Parameters []Tensor
	// Notes says what was converted, and how printed scores differ from the tool's.
	Notes []string
	// Dataset names the data set, or is empty if the folder does not name it.
	Dataset string
	// ToolScore returns the score that the tool prints, given the score that mquine prints. Nil
	// means that the two are equal.
	ToolScore func(score float64) float64
}

// negated returns the score of a tool that ranks smaller scores first.
func negated(score float64) float64 { return -score }

// squared returns −D², the score that a tool prints, given −D.
func squared(score float64) float64 { return -score * score }

// Find returns the format that reads the path, which is a folder or a file that holds a checkpoint.
// It returns several formats if the names of the files do not tell which of them it is, and nil if
// none fits.
func Find(path string) (fit []*Format) {
	for _, f := range All {
		if f.Is != nil && f.Is(path) {
			return []*Format{f}
		}
		if f.Reads(path) {
			fit = append(fit, f)
		}
	}
	// A file with a common ending may be a stray, but the vocabulary of a tool rarely is.
	var labelled []*Format
	for _, f := range fit {
		if exists(path, f.vocabularies[0].entities) {
			labelled = append(labelled, f)
		}
	}
	if len(labelled) == 1 {
		return labelled
	}
	return fit
}

// Reads reports whether the path may be a checkpoint of the tool, by the names of the files.
func (f *Format) Reads(path string) bool {
	if f.Ending != "" && f.part == "" && len(filesAt(path, "", f.Ending)) > 0 {
		return true
	}
	return f.Is != nil && f.Is(path)
}

// Open opens the parameters of a folder, or of a file in the folder that f.Reads. Close the folder
// after use, even if it cannot be converted.
func (f *Format) Open(ctx context.Context, path string) (_ *Folder, err error) {
	folder := &Folder{Path: path, Format: f, Metadata: map[string]string{}, ctx: ctx}
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		folder.Path, folder.file = filepath.Dir(path), filepath.Base(path)
	}
	defer func() {
		if err != nil {
			_ = folder.Close()
		}
	}()
	defer fault.Guard().Catch(&err)
	if err := f.open(folder); err != nil {
		if folder.file != "" && ctx.Err() == nil && f.notIn(folder.Path) {
			return nil, fmt.Errorf("%w; give the folder of the checkpoint, %s", err, folder.Path)
		}
		return nil, err
	}
	return folder, nil
}

// notIn reports whether a folder certainly belongs to another tool.
func (f *Format) notIn(dir string) bool {
	is := func(f *Format) bool { return f.Is != nil && f.Is(dir) }
	return !is(f) && slices.ContainsFunc(All, is)
}

// Convert returns the model in the folder. Call ReadVocabularies first.
func (f *Folder) Convert() (_ *Converted, err error) {
	defer fault.Guard().Catch(&err)
	c, err := f.Format.convert(f)
	if err != nil {
		return nil, err
	}
	if other, ok := FindOtherScores(f.Format.Name, c.Config.Model); ok {
		c.Notes = append(c.Notes, other.Reason)
	}
	for _, t := range c.Parameters {
		if t.Type != "float32" {
			c.Notes = append(c.Notes, fmt.Sprintf("tensor %s was converted from %s to float32", t.Name, t.Type))
		}
	}
	return c, nil
}

// Close closes the files.
func (f *Folder) Close() error {
	var errs []error
	for _, file := range f.Files {
		errs = append(errs, file.Close())
	}
	f.Files = nil
	return errors.Join(errs...)
}

// add adds an open file and records hashes of its contents (Mark).
func (f *Folder) add(file File) error {
	f.Files = append(f.Files, file)
	return file.Mark(f.ctx)
}

// openNpy opens a table of a .npy file under the given name.
func (f *Folder) openNpy(file, name string) error {
	return f.openNpyAt(filepath.Join(f.Path, file), name)
}

func (f *Folder) openNpyAt(path, name string) error {
	table, err := npy.Open(path)
	if err != nil {
		return err
	}
	if err := f.add(table); err != nil {
		return err
	}
	f.Tensors = append(f.Tensors, Tensor{path, name, table.Type(), table.Shape(), table.Float32})
	return nil
}

// openTorch opens a torch file and sets f.value.
func (f *Folder) openTorch(file string, opaque func(pickle.Global) bool) error {
	opened, err := torch.Open(filepath.Join(f.Path, file), opaque)
	if err != nil {
		return err
	}
	f.value = opened.Value
	return f.add(opened)
}

// addState adds the tensors of a state dictionary.
func (f *Folder) addState(file string, state *pickle.Dict) error {
	path := filepath.Join(f.Path, file)
	if state == nil {
		return fmt.Errorf("%s holds no dictionary of tensors", path)
	}
	for _, e := range state.Entries {
		t, ok := e.Value.(*torch.Tensor)
		name, named := e.Key.(string)
		if ok && named {
			f.addTorch(path, name, t)
		}
	}
	if len(f.Tensors) == 0 {
		return fmt.Errorf("%s holds no tensors", path)
	}
	return nil
}

// addTorch adds a tensor of a torch file.
func (f *Folder) addTorch(path, name string, t *torch.Tensor) {
	values := t.Float32
	if t.Expanded() {
		values = nil
	}
	f.Tensors = append(f.Tensors, Tensor{path, name, t.Type.String(), t.Shape, values})
}

// tensor returns the tensor with the given name, which must not be expanded.
func (f *Folder) tensor(name string) (Tensor, error) {
	i := slices.IndexFunc(f.Tensors, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		return Tensor{}, fmt.Errorf("%s: tensor %q is missing: the file has %s", f.Path, name, f.names())
	}
	t := f.Tensors[i]
	if t.Values == nil {
		return Tensor{}, expanded(t.Path, name)
	}
	return t, nil
}

// expanded returns the error about an expanded tensor.
func expanded(path, name string) error {
	return fmt.Errorf("%s: tensor %.80q is expanded, so it has more elements than its storage: "+
		"clone it and save the file again", path, name)
}

// tables returns the table of the entities and the table of the relations.
func (f *Folder) tables(entityName, relationName string) (entity, relation Tensor, err error) {
	if entity, err = f.tensor(entityName); err == nil {
		relation, err = f.tensor(relationName)
	}
	return entity, relation, err
}

// has reports whether the folder has a tensor with each of the names.
func (f *Folder) has(names ...string) bool {
	for _, name := range names {
		if !slices.ContainsFunc(f.Tensors, func(t Tensor) bool { return t.Name == name }) {
			return false
		}
	}
	return true
}

// names lists the first names of the tensors, for messages.
func (f *Folder) names() string {
	list := listNames(f.Tensors, func(t Tensor) string { return t.Name })
	return cmp.Or(list, "no tensors that can be read")
}

// listNames lists the first names of things, for messages. It returns "" if the list is empty.
func listNames[T any](things []T, name func(T) string) string {
	const most = 8
	var list []string
	for _, x := range things[:min(most, len(things))] {
		list = append(list, fmt.Sprintf("%.60q", name(x)))
	}
	if len(things) > most {
		list = append(list, "…")
	}
	return strings.Join(list, ", ")
}

// unsupported returns the error for a model that package model lacks.
func (f *Folder) unsupported(name, reason string) error {
	if name == "" {
		return fmt.Errorf("%s holds no model of %s that mquine knows: its tensors are %s",
			f.Path, f.Format.Tool, f.names())
	}
	if reason != "" {
		reason = ": " + reason
	}
	return fmt.Errorf("%s holds model %.60q of %s, which mquine cannot rank yet%s", f.Path, name, f.Format.Tool, reason)
}

// chosen returns the name of the file that the user chose. If the user chose a folder, chosen
// returns the first of the preferred files that exists or, if none exists, the only file that has the
// ending f.Format.Ending and contains f.Format.part.
func (f *Folder) chosen(preferred ...string) (string, error) {
	if f.file != "" {
		return f.file, nil
	}
	for _, name := range preferred {
		if exists(f.Path, name) {
			return name, nil
		}
	}
	names := filesAt(f.Path, f.Format.part, f.Format.Ending)
	if len(names) == 1 {
		return names[0], nil
	}
	const most = 4
	list := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		list += ", …"
	}
	return "", fmt.Errorf("%s has %d checkpoints of %s (%s): name one of these files instead of the folder",
		f.Path, len(names), f.Format.Name, list)
}

// filesAt returns the names of the files in a folder that have the given ending and contain part, in
// any case. If path is a file, filesAt returns its name if the name fits.
func filesAt(path, part, ending string) []string {
	names := endingIn(path, ending)
	if info, err := os.Stat(path); err == nil && !info.IsDir() && strings.HasSuffix(path, ending) {
		names = []string{filepath.Base(path)}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(strings.ToLower(name), part) })
}

// endingIn returns the names of the files in dir with the given ending.
func endingIn(dir, ending string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ending) {
			names = append(names, e.Name())
		}
	}
	return names
}

// exists reports whether dir has all the files.
func exists(dir string, names ...string) bool {
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}
