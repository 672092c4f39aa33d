package formats

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint/pickle"
	"github.com/mquine/mquine/model/checkpoint/torch"
)

// pykeen is the format of PyKEEN's save_to_directory:
//
//	trained_model.pkl                             torch file: the whole model object
//	training_triples/entity_to_id.tsv.gz          a header, then lines id<TAB>label
//	training_triples/relation_to_id.tsv.gz
//
// The object is read as a record: its modules, by name, hold the parameters, and the interaction
// holds options such as the norm. No class of PyKEEN is needed, and none of its code runs. ComplEx
// interleaves real and imaginary parts. With inverse triples, the inverse of relation 2r is 2r + 1.
var pykeen = &Format{
	Name: "pykeen", Tool: "PyKEEN (pykeen/pykeen)", Protocol: "pykeen",
	Files:        "trained_model.pkl, training_triples/",
	Is:           func(dir string) bool { return exists(dir, pykeenModel) },
	vocabularies: []vocabularyFiles{pykeenFiles},
	open:         openPyKEEN,
	convert:      convertPyKEEN,
}

const pykeenModel = "trained_model.pkl"

// pykeenName reports whether a class or function may occur in a PyKEEN model. Its objects become
// records.
func pykeenName(g pickle.Global) bool {
	for _, module := range []string{"pykeen", "torch", "class_resolver", "functools", "collections", "more_itertools"} {
		if g.Module == module || strings.HasPrefix(g.Module, module+".") {
			return true
		}
	}
	// A bound method, such as an initialiser, is saved as getattr(object, name).
	return g == pickle.Global{Module: "builtins", Name: "getattr"}
}

func openPyKEEN(f *Folder) error {
	if err := f.openTorch(pykeenModel, pykeenName); err != nil {
		return err
	}
	root, ok := f.value.(*pickle.Object)
	if !ok || !strings.HasPrefix(root.Class.Module, "pykeen.") {
		return fmt.Errorf("%s holds no model of PyKEEN", filepath.Join(f.Path, pykeenModel))
	}
	f.Metadata["model"] = root.Class.Name
	if err := f.addModule(root, "interaction", map[*pickle.Object]bool{}); err != nil {
		return err
	}
	for _, r := range representations(root) {
		if t, ok := attribute(module(r.Object, "_embeddings"), "_parameters", "weight").(*torch.Tensor); ok {
			f.addTorch(filepath.Join(f.Path, pykeenModel), r.name, t)
		}
	}
	return nil
}

// representation is a module with a table of a PyKEEN model, such as entity_representations.0.
type representation struct {
	name string
	*pickle.Object
}

// representations returns the modules with the tables of entities and relations.
func representations(root *pickle.Object) (found []representation) {
	for _, list := range []string{"entity_representations", "relation_representations"} {
		for i := 0; ; i++ {
			m := module(root, list, fmt.Sprint(i))
			if m == nil {
				break
			}
			found = append(found, representation{fmt.Sprintf("%s.%d", list, i), m})
		}
	}
	return found
}

// These limits of the names of modules exceed what PyKEEN's interactions need.
const (
	maxModuleDepth = 16
	maxModuleName  = 256
)

// addModule adds the parameters and buffers of a submodule of m and of its own submodules. A damaged
// file may have modules that contain themselves or that many modules share, so addModule visits a
// module once.
func (f *Folder) addModule(m *pickle.Object, name string, visited map[*pickle.Object]bool, parents ...string) error {
	if m = module(m, name); m == nil || visited[m] {
		return nil
	}
	visited[m] = true
	if len(parents) >= maxModuleDepth || len(name) > maxModuleName {
		return fmt.Errorf("%s is damaged: a module of its interaction lies deeper than %d other modules, or has a "+
			"name of more than %d bytes", filepath.Join(f.Path, pykeenModel), maxModuleDepth, maxModuleName)
	}
	path := append(parents, name)
	for _, kind := range []string{"_parameters", "_buffers"} {
		for _, e := range entries(m, kind) {
			key, named := e.Key.(string)
			if t, ok := e.Value.(*torch.Tensor); ok && named {
				f.addTorch(filepath.Join(f.Path, pykeenModel), strings.Join(append(path, key), "."), t)
			}
		}
	}
	for _, e := range entries(m, "_modules") {
		if key, named := e.Key.(string); named {
			if err := f.addModule(m, key, visited, path...); err != nil {
				return err
			}
		}
	}
	return nil
}

// entries returns the entries of a dictionary that is an attribute of an object.
func entries(o *pickle.Object, dictionary string) []pickle.Entry {
	value, _ := o.Attribute(dictionary)
	if d, ok := value.(*pickle.Dict); ok {
		return d.Entries
	}
	return nil
}

// module returns a submodule of a torch module by its path, or nil.
func module(m *pickle.Object, path ...string) *pickle.Object {
	for _, name := range path {
		m, _ = attribute(m, "_modules", name).(*pickle.Object)
	}
	return m
}

// attribute returns an entry of a dictionary that is an attribute of an object, or nil.
func attribute(o *pickle.Object, dictionary, key string) any {
	value, _ := o.Attribute(dictionary)
	d, _ := value.(*pickle.Dict)
	entry, _ := d.Get(key)
	return entry
}

func convertPyKEEN(f *Folder) (*Converted, error) {
	name := f.Metadata["model"]
	if err := f.checkNormalizers(); err != nil {
		return nil, err
	}
	tables := func(convert func(entity, relation Tensor) (*Converted, error)) (*Converted, error) {
		entity, relation, err := f.tables("entity_representations.0", "relation_representations.0")
		if err != nil {
			return nil, err
		}
		return convert(entity, relation)
	}
	switch name {
	case "BoxE":
		return f.pykeenBoxE()
	case "ComplEx":
		return tables(f.pykeenComplEx)
	case "ConvE":
		return tables(f.pykeenConvE)
	case "CP":
		return f.cpModel("entity_representations.0", "entity_representations.1", "relation_representations.0",
			f.pykeenInverses())
	case "DistMult":
		return tables(f.pykeenDistMult)
	case "QuatE":
		return tables(f.pykeenQuatE)
	case "RESCAL":
		return f.rescalModel("entity_representations.0", "relation_representations.0", f.pykeenInverses())
	case "RotatE":
		return tables(f.pykeenRotatE)
	case "SimplE":
		return f.pykeenSimplE()
	case "TransD", "TransE", "TransH", "TransR":
		return tables(f.pykeenTranslation)
	case "TuckER":
		return tables(f.pykeenTuckER)
	}
	return nil, f.unsupported(name, "")
}

// checkNormalizers returns an error if a table has a normalizer, which PyKEEN applies to the rows
// before it scores. Only the relations of QuatE have one that mquine applies, too.
func (f *Folder) checkNormalizers() error {
	name := f.Metadata["model"]
	for _, r := range representations(f.value.(*pickle.Object)) {
		normalizer, _ := r.Attribute("normalizer")
		quaternions := name == "QuatE" && strings.HasPrefix(r.name, "relation_")
		switch {
		case quaternions && (normalizer == pickle.Global{Module: "pykeen.nn.quaternion", Name: "normalize"} ||
			normalizer == pickle.Global{Module: "pykeen.models.unimodal.quate", Name: "quaternion_normalizer"}):
		case quaternions:
			return f.unsupported(name, "its relations are not divided by their absolute values when PyKEEN scores, "+
				"but mquine's are")
		case normalizer != nil:
			return f.unsupported(name,
				fmt.Sprintf("the rows of %s have a normalizer, which mquine cannot apply", r.name))
		}
	}
	return nil
}

// checkQuaternions returns an error if the rows of QuatE are not d quaternions of 4 numbers. Up to
// version 1.9.0, PyKEEN scores with rows of 4d numbers part by part, but normalises them in fours.
func (f *Folder) checkQuaternions() error {
	for _, r := range representations(f.value.(*pickle.Object)) {
		value, _ := r.Attribute("shape")
		if shape, _ := value.(pickle.Tuple); len(shape) != 2 || shape[1] != int64(4) {
			return f.unsupported("QuatE", fmt.Sprintf("the rows of %s do not have the shape (d, 4) that they have "+
				"since PyKEEN 1.10: train the model again with a later version", r.name))
		}
	}
	return nil
}

// pykeenInverses says where the tables of relations keep inverse relations.
func (f *Folder) pykeenInverses() numbering {
	if value, _ := f.value.(*pickle.Object).Attribute("use_inverse_triples"); value == true {
		return interleaved
	}
	return noInverses
}

// pykeenOption returns an option of the interaction as text, or "" if it is missing.
func (f *Folder) pykeenOption(name string) string {
	value, _ := module(f.value.(*pickle.Object), "interaction").Attribute(name)
	text, _ := pickle.Text(value)
	return text
}

func (f *Folder) pykeenDistMult(entity, relation Tensor) (*Converted, error) {
	return f.vectorModel("distmult", 1, 1, entity, relation, f.pykeenInverses(), nil)
}

func (f *Folder) pykeenComplEx(entity, relation Tensor) (*Converted, error) {
	c, err := f.vectorModel("complex", 2, 2, entity.mapRows(separate), relation.mapRows(separate),
		f.pykeenInverses(), nil)
	if err == nil {
		c.Notes = append(c.Notes, "PyKEEN interleaves real and imaginary parts; mquine stores all real parts first")
	}
	return c, err
}

func (f *Folder) pykeenQuatE(entity, relation Tensor) (*Converted, error) {
	if err := f.checkQuaternions(); err != nil {
		return nil, err
	}
	c, err := f.vectorModel("quate", 4, 4, entity.mapRows(separateQuaternions),
		relation.mapRows(separateQuaternions).mapRows(times(-1)), f.pykeenInverses(), nil)
	if err == nil {
		c.Notes = append(c.Notes, "PyKEEN's QuatE scores −Σ ⟨h ⊗ r/|r|, t⟩, so the relations are negated; "+
			"PyKEEN interleaves the parts of quaternions, and mquine stores them part by part")
	}
	return c, err
}

// pykeenRotatE converts RotatE, whose tables hold complex numbers in pairs. No option sets the norm.
func (f *Folder) pykeenRotatE(entity, relation Tensor) (*Converted, error) {
	relation, err := relation.phases()
	if err != nil {
		return nil, err
	}
	radians := map[string]float64{model.EmbeddingRange: math.Pi}
	c, err := f.vectorModel("rotate-l2", 2, 1, entity.mapRows(separate), relation, f.pykeenInverses(), radians)
	if err == nil {
		c.Notes = append(c.Notes, "PyKEEN's RotatE takes one norm over all coordinates, as rotate-l2 does; "+
			"mquine stores the phases of the relations")
	}
	return c, err
}

// pykeenTranslation converts TransE, TransH, TransR and TransD, which have an option for the norm.
func (f *Folder) pykeenTranslation(entity, relation Tensor) (c *Converted, err error) {
	name, p := f.Metadata["model"], f.pykeenOption("p")
	suffix, ok := normSuffix(p)
	if !ok {
		return nil, f.unsupported(name, fmt.Sprintf("its norm p is %q", p))
	}
	if name == "TransE" {
		c, err = f.vectorModel("transe"+suffix, 1, 1, entity, relation, f.pykeenInverses(), nil)
	} else {
		c, err = f.pykeenProjection(strings.ToLower(name)+suffix, entity, relation)
	}
	if err == nil && suffix == "-l2" && f.pykeenOption("power_norm") == "true" {
		c.ToolScore = squared
		c.Notes = append(c.Notes, fmt.Sprintf("this %s of PyKEEN scores −D² for the distance D; mquine prints γ − D, "+
			"which gives the same ranks", name))
	}
	return c, err
}

// pykeenProjection converts TransH, TransR and TransD, given the first table of entities and the
// first table of relations. PyKEEN's TransH stores the normals in its first table of relations and
// does not normalise them when it scores. Versions 1.10.0 to 1.10.2 exchange the two tables, and
// nothing in the file distinguishes them from later versions. PyKEEN's TransR shortens
// images whose norm, taken as in the score, exceeds max_projection_norm. TransR without this option,
// up to version 1.10.2, and TransD shorten images whose L2 norm exceeds 1.
func (f *Folder) pykeenProjection(name string, entity, relation Tensor) (*Converted, error) {
	second, err := f.tensor("relation_representations.1")
	if err != nil {
		return nil, err
	}
	config := model.Config{Model: name, Dim: entity.width(), Hyper: map[string]float64{}}
	if strings.HasPrefix(name, "transh") {
		c, err := f.tableModel(config, f.pykeenInverses(), entity, second, relation)
		// Models have this attribute since version 1.10.0.
		if _, later := f.value.(*pickle.Object).Attribute("relation_inverter"); later && err == nil {
			c.Notes = append(c.Notes, "mquine takes the normals of TransH from the first table of relations and the "+
				"translations from the second, but PyKEEN 1.10.0 to 1.10.2 does the reverse, and the file does not "+
				"name its version: check with mquine import --verify; docs/models/transh.md says how to exchange "+
				"the tables")
		}
		return c, err
	}
	config.Hyper[model.RelationDim] = float64(relation.width())
	config.Hyper[model.MaxProjectionNorm] = 1
	limit, err := strconv.ParseFloat(f.pykeenOption("max_projection_norm"), 64)
	switch {
	case err == nil && strings.HasPrefix(name, "transr"):
		config.Hyper[model.MaxProjectionNorm] = limit
	case !strings.HasSuffix(name, "-l2"):
		return nil, f.unsupported(f.Metadata["model"], fmt.Sprintf("its score has p = %s, but this version of PyKEEN "+
			"bounds the images of entities in the L2 norm, and mquine bounds them in the norm of the score",
			f.pykeenOption("p")))
	}
	if strings.HasPrefix(name, "transd") {
		vectors, err := f.tensor("entity_representations.1")
		if err != nil {
			return nil, err
		}
		if entity, err = join(entity, vectors); err != nil {
			return nil, err
		}
	}
	return f.tableModel(config, f.pykeenInverses(), entity, relation, second)
}

// pykeenSimplE converts PyKEEN's SimplE, whose score ½ Σ (a_h r a_t + b_h r' b_t) uses the same
// tables for heads and tails. It is DistMult with the rows [a, b] and ½[r, r'].
func (f *Folder) pykeenSimplE() (*Converted, error) {
	if clamp, _ := module(f.value.(*pickle.Object), "interaction").Attribute("clamp_score"); clamp != nil {
		return nil, f.unsupported("SimplE", "it has the option clamp_score, which makes large scores equal, and "+
			"mquine reads it as DistMult, which does not")
	}
	entity, err := f.joined("entity_representations.0", "entity_representations.1")
	if err != nil {
		return nil, err
	}
	relation, err := f.joined("relation_representations.0", "relation_representations.1")
	if err != nil {
		return nil, err
	}
	c, err := f.vectorModel("distmult", 1, 1, entity, relation.mapRows(times(0.5)), f.pykeenInverses(), nil)
	if err == nil {
		c.Notes = append(c.Notes, "PyKEEN's SimplE scores ½ Σ (a_h r a_t + b_h r' b_t), which is DistMult of twice "+
			"the dimension, and not SimplE, ½ Σ (a_h r b_t + a_t r' b_h)")
	}
	return c, err
}

// pykeenBoxE joins the tables of positions and bumps, and the six tables of the boxes: centre, shape
// and size of the head box, and then of the tail box.
func (f *Folder) pykeenBoxE() (*Converted, error) {
	interaction := module(f.value.(*pickle.Object), "interaction")
	if interaction == nil {
		return nil, f.unsupported("BoxE", "its interaction is missing")
	}
	p, _ := interaction.Attribute("p")
	tanh, _ := interaction.Attribute("tanh_map")
	power, _ := interaction.Attribute("power_norm")
	if norm, _ := pickle.Text(p); !isNumber(norm, 2) || tanh != true || power == true {
		return nil, f.unsupported("BoxE", "mquine needs p = 2 and tanh_map = true, without power_norm")
	}
	relationTable := func(i int) string { return fmt.Sprintf("relation_representations.%d", i) }
	entity, err := f.joined("entity_representations.0", "entity_representations.1")
	if err != nil {
		return nil, err
	}
	d := entity.width() / 2
	for i, width := range []int{d, d, 1, d, d, 1} {
		t, err := f.tensor(relationTable(i))
		if err != nil {
			return nil, err
		}
		if t.width() != width {
			return nil, fmt.Errorf("%s: tensor %.60q of BoxE has rows of %d numbers, not %d",
				t.Path, t.Name, t.width(), width)
		}
	}
	relation, err := f.joined(relationTable(0), relationTable(1), relationTable(3), relationTable(4),
		relationTable(2), relationTable(5))
	if err != nil {
		return nil, err
	}
	return f.tableModel(model.Config{Model: "boxe", Dim: d}, f.pykeenInverses(), entity, relation)
}

// pykeenTuckER converts TuckER, whose core has the axes head, relation and tail.
func (f *Folder) pykeenTuckER(entity, relation Tensor) (*Converted, error) {
	const head, product = "interaction.head_batch_norm", "interaction.head_relation_batch_norm"
	core, err := f.tensor("interaction.core_tensor")
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(f.Tensors, func(t Tensor) bool {
		return strings.HasPrefix(t.Name, head+".") || strings.HasPrefix(t.Name, product+".")
	}) {
		return f.tuckER(entity, relation, f.pykeenInverses(), core.swapAxes())
	}
	if err := f.checkEpsilon("head_batch_norm", "head_relation_batch_norm"); err != nil {
		return nil, err
	}
	return f.tuckER(entity, relation, f.pykeenInverses(), core.swapAxes(), head, product)
}

// pykeenConvE converts ConvE. The biases of the entities are in a separate table.
func (f *Folder) pykeenConvE(entity, relation Tensor) (*Converted, error) {
	bias, err := f.tensor("entity_representations.1")
	if err != nil {
		return nil, err
	}
	if entity, err = join(bias, entity); err != nil {
		return nil, err
	}
	interaction := module(f.value.(*pickle.Object), "interaction")
	if interaction == nil {
		return nil, f.unsupported("ConvE", "its interaction is missing")
	}
	value, _ := interaction.Attribute("shape_info")
	shape, _ := value.(*pickle.Object)
	number := func(key string) int {
		value, _ := shape.Attribute(key)
		text, _ := pickle.Text(value)
		n, _ := strconv.Atoi(text)
		return n
	}
	if number("kernel_height") != 3 || number("kernel_width") != 3 || number("input_channels") != 1 {
		return nil, f.unsupported("ConvE", fmt.Sprintf("its filters are %d × %d for %d input channels, but mquine "+
			"reads only filters of 3 × 3 for one channel",
			number("kernel_height"), number("kernel_width"), number("input_channels")))
	}
	if module(interaction, "hr2d", "3") == nil || module(interaction, "hr1d", "2") == nil ||
		!f.has("interaction.hr2d.3.weight", "interaction.hr1d.2.weight") {
		return nil, f.unsupported("ConvE", "it was trained without batch normalisation")
	}
	if err := f.checkEpsilon("hr2d.0", "hr2d.3", "hr1d.2"); err != nil {
		return nil, err
	}
	return f.convE(number("image_height"), entity, relation, f.pykeenInverses(), convELayers{
		norm0: "interaction.hr2d.0", filters: "interaction.hr2d.2", norm1: "interaction.hr2d.3",
		dense: "interaction.hr1d.0", norm2: "interaction.hr1d.2",
	})
}

// checkEpsilon returns an error if a batch normalisation in the interaction does not have PyTorch's
// default ε.
func (f *Folder) checkEpsilon(names ...string) error {
	for _, name := range names {
		path := append([]string{"interaction"}, strings.Split(name, ".")...)
		if m := module(f.value.(*pickle.Object), path...); m != nil {
			if value, _ := m.Attribute("eps"); value != 1e-5 {
				text, _ := pickle.Text(value)
				return f.unsupported(f.Metadata["model"], fmt.Sprintf("layer %s has ε = %.60q, not 1e-5", name, text))
			}
		}
	}
	return nil
}
