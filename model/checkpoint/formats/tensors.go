package formats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint/pickle"
	"github.com/mquine/mquine/model/checkpoint/safetensors"
	"github.com/mquine/mquine/model/checkpoint/torch"
)

// Tensors names the format of tables that the user describes.
const Tensors = "tensors"

// TensorFiles describes a model with a table for entities and a table for relations, in files that
// any program wrote.
type TensorFiles struct {
	// Model is the name in package model.
	Model string
	// Hyper holds the model's hyper-parameters, such as the embedding range of RotatE.
	Hyper map[string]float64
	// Entity and Relation name the tables: FILE.npy, FILE.safetensors:TENSOR, or FILE:TENSOR for a
	// torch file, where OUTER/TENSOR is a tensor in the dictionary OUTER.
	Entity, Relation string
	// Pairs says that the real and the imaginary parts of complex numbers alternate. Otherwise, all
	// real parts come first.
	Pairs bool
	// Inverses says where a table of relations with 2R rows keeps the inverse of relation r:
	// "offset" for row r + R, "interleaved" for row 2r + 1 with r in row 2r. It is empty for a
	// table with R rows.
	Inverses string
	// Entities and Relations name the vocabulary files, with lines of the form id<TAB>label or
	// label<TAB>id.
	Entities, Relations string
}

// HasPairs reports whether the entity table of a model holds pairs of numbers, such as complex
// numbers.
func HasPairs(name string) bool {
	tables, err := twoTables(name, nil)
	return err == nil && tables[0].Pairs
}

// TensorModels returns the names of the models that TensorFiles can describe.
func TensorModels() (names []string) {
	for _, s := range model.Specs() {
		if _, err := twoTables(s.Name, nil); err == nil {
			names = append(names, s.Name)
		}
	}
	return names
}

// twoTables returns the parameters of a model of dimension 1 that has one table for entities and one
// for relations, in this order.
func twoTables(name string, hyper map[string]float64) ([]model.Parameter, error) {
	spec, err := model.Lookup(name)
	if err != nil {
		return nil, err
	}
	parameters, err := spec.Parameters(spec.Initial(model.Config{Model: name, Dim: 1, Hyper: hyper}))
	if err != nil {
		return nil, err
	}
	if len(parameters) != 2 || parameters[0].Name != "entity" || parameters[1].Name != "relation" {
		return nil, fmt.Errorf("model %s does not have exactly two tables, one of entities and one of relations",
			name)
	}
	return parameters, nil
}

// OpenTensors opens the tables and returns a folder that is ready to be converted.
func OpenTensors(ctx context.Context, files TensorFiles) (_ *Folder, err error) {
	// The width of an entity's row, as a multiple of d, does not depend on the size of the groups, which
	// would have to divide d = 1.
	ungrouped := maps.Clone(files.Hyper)
	delete(ungrouped, model.Group)
	units, err := twoTables(files.Model, ungrouped)
	if err != nil {
		return nil, err
	}
	perEntity := units[0].Width()
	numberings := map[string]numbering{"": noInverses, "offset": offset, "interleaved": interleaved}
	inverses, known := numberings[files.Inverses]
	if !known {
		return nil, fmt.Errorf("inverse relations are offset or interleaved, not %.40q", files.Inverses)
	}
	format := &Format{Name: Tensors, Tool: "tables"}
	format.open = func(f *Folder) error {
		return errors.Join(f.openTable("entity", files.Entity), f.openTable("relation", files.Relation))
	}
	format.convert = func(f *Folder) (*Converted, error) {
		tables := slices.Clone(f.Tensors)
		if n := f.Relations.Len(); files.Inverses == "" && tables[1].rows() == 2*n {
			return nil, fmt.Errorf("%s: tensor %.80q has %d rows for %s: if half of them are inverse relations, use "+
				"--reciprocal to say where they are", tables[1].Path, tables[1].Name, 2*n, text.Plural(n, "relation"))
		} else if files.Inverses != "" && tables[1].rows() != 2*n {
			return nil, fmt.Errorf("%s: tensor %.80q has %s for %s, but --reciprocal needs two rows for each",
				tables[1].Path, tables[1].Name, text.Plural(tables[1].rows(), "row"), text.Plural(n, "relation"))
		}
		for i, p := range units {
			if !p.Pairs {
				continue
			}
			if err := tables[i].checkPairs(files.Pairs); err != nil {
				return nil, err
			}
			if files.Pairs {
				tables[i] = tables[i].mapRows(separate)
			}
		}
		if width := tables[0].width(); width < perEntity || width%perEntity != 0 {
			return nil, fmt.Errorf("%s: tensor %.80q has rows of %s, but an entity of model %s has a multiple of %d",
				tables[0].Path, tables[0].Name, text.Plural(width, "number"), files.Model, perEntity)
		}
		config := model.Config{Model: files.Model, Dim: tables[0].width() / perEntity, Hyper: files.Hyper}
		return f.tableModel(config, inverses, tables...)
	}
	path, _ := cutTensor(files.Entity)
	f, err := format.Open(ctx, filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	f.VocabularyDir = filepath.Dir(files.Entities)
	if f.Entities, err = readAnyOrder(ctx, files.Entities); err == nil {
		f.Relations, err = readAnyOrder(ctx, files.Relations)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// checkPairs returns an error if the rows of a table of pairs have several axes and the order of the
// axes contradicts the layout.
func (t Tensor) checkPairs(alternate bool) error {
	axis, layout, want := 1, "halves", "[2, k]"
	if alternate {
		axis, layout, want = 2, "interleaved", "[k, 2]"
	}
	if len(t.Shape) <= 2 || len(t.Shape) == 3 && t.Shape[axis] == 2 {
		return nil
	}
	return fmt.Errorf("%s: tensor %.80q has shape %v, but with --layout %s its rows must be vectors or have shape %s: "+
		"change --layout, or save the table with another shape", t.Path, t.Name, t.Shape, layout, want)
}

// readAnyOrder reads lines of the form id<TAB>label or label<TAB>id.
func readAnyOrder(ctx context.Context, path string) (*kg.Vocabulary, error) {
	v, err := readVocabulary(ctx, path, kg.VocabularyLayout{})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	reversed, other := readVocabulary(ctx, path, kg.VocabularyLayout{LabelFirst: true})
	switch {
	case err == nil && other == nil && !slices.Equal(v.Labels(), reversed.Labels()):
		return nil, fmt.Errorf("%s could have lines id<TAB>label or label<TAB>id: use labels that are not numbers",
			path)
	case err == nil:
		return v, nil
	case other == nil:
		return reversed, nil
	case err.Error() == other.Error():
		return nil, err
	}
	return nil, fmt.Errorf("%w; read as label<TAB>id, %w", err, other)
}

// cutTensor splits FILE:TENSOR at the last colon. The colon of a Windows drive, as in C:\e.npy, does
// not count, nor does a colon in the path of a file that exists.
func cutTensor(where string) (path, inside string) {
	if _, err := os.Stat(where); err == nil {
		return where, ""
	}
	i := strings.LastIndexByte(where, ':')
	if i < 0 || i == 1 && len(where) > 2 && (where[2] == '\\' || where[2] == '/') {
		return where, ""
	}
	return where[:i], where[i+1:]
}

// openTable opens the table that where describes, under the given name. An error begins with the flag
// that names the table.
func (f *Folder) openTable(name, where string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("--%s: %w", name, err)
		}
	}()
	path, inside := cutTensor(where)
	switch filepath.Ext(path) {
	case ".npy":
		if inside != "" {
			return fmt.Errorf("%s has one table without a name: omit :%.80s", path, inside)
		}
		return f.openNpyAt(path, name)
	case ".safetensors":
		return f.openSafetensors(path, inside, name)
	}
	file, err := torch.Open(path, func(pickle.Global) bool { return true })
	if err != nil {
		return err
	}
	if err := f.add(file); err != nil {
		return err
	}
	value := file.Value
	for _, key := range strings.Split(inside, "/") {
		d, ok := value.(*pickle.Dict)
		if !ok && inside == "" {
			break // the file holds a single value
		} else if !ok {
			return notTensor(path, inside)
		}
		if value, ok = d.Get(key); !ok {
			return noTensor(path, inside, d.Entries, func(e pickle.Entry) string {
				key, _ := pickle.Text(e.Key)
				return key
			})
		}
	}
	t, ok := value.(*torch.Tensor)
	if !ok {
		return notTensor(path, inside)
	}
	if t.Expanded() {
		return expanded(path, inside)
	}
	f.addTorch(path, name, t)
	return nil
}

func (f *Folder) openSafetensors(path, inside, name string) error {
	file, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	if err := f.add(file); err != nil {
		return err
	}
	i := slices.IndexFunc(file.Tensors(), func(t safetensors.Tensor) bool { return t.Name == inside })
	if i < 0 {
		return noTensor(path, inside, file.Tensors(), func(t safetensors.Tensor) string { return t.Name })
	}
	values, kind, err := file.Floats(inside)
	if err != nil {
		return err
	}
	f.Tensors = append(f.Tensors, Tensor{path, name, kind, file.Tensors()[i].Shape, values})
	return nil
}

// notTensor returns the error about a name that leads to no tensor in a torch file.
func notTensor(path, inside string) error {
	return fmt.Errorf("%s: %.80q is not a tensor: name one, as in FILE:TENSOR or FILE:DICTIONARY/TENSOR", path, inside)
}

// noTensor returns the error about a tensor that a file lacks. list and nameOf say what the file has.
func noTensor[T any](path, name string, list []T, nameOf func(T) string) error {
	return fmt.Errorf("%s has no tensor %.80q: it has %s", path, name, cmp.Or(listNames(list, nameOf), "none"))
}
