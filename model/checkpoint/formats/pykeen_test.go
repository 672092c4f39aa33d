package formats

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model/checkpoint/pickle"
)

// pickled is an object in a test's pickle: its class and its attributes.
type pickled struct {
	class      string
	attributes attributes
}

type attributes map[string]any

// encode returns the instructions of a pickle that build a value.
func encode(v any) string {
	switch v := v.(type) {
	case nil:
		return "N"
	case bool:
		return map[bool]string{false: "\x89", true: "\x88"}[v]
	case int:
		return "\x8a\x08" + string(binary.LittleEndian.AppendUint64(nil, uint64(v)))
	case float64:
		return "G" + string(binary.BigEndian.AppendUint64(nil, math.Float64bits(v)))
	case string:
		return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(v)))) + v
	case []any:
		var items strings.Builder
		for _, item := range v {
			items.WriteString(encode(item))
		}
		return "(" + items.String() + "t"
	case pickle.Global:
		return "c" + v.Module + "\n" + v.Name + "\n"
	case attributes:
		var entries strings.Builder
		for _, key := range slices.Sorted(maps.Keys(v)) {
			entries.WriteString(encode(key) + encode(v[key]))
		}
		return "}(" + entries.String() + "u"
	case pickled:
		dot := strings.LastIndexByte(v.class, '.')
		class := encode(pickle.Global{Module: v.class[:dot], Name: v.class[dot+1:]})
		return class + ")\x81" + encode(v.attributes) + "b"
	}
	panic(fmt.Sprintf("%T", v))
}

// readPickle returns the value of a pickle with the given instructions.
func readPickle(t *testing.T, code string) any {
	value, _, err := pickle.Read([]byte("\x80\x02"+code+"."), pickle.Options{Opaque: pykeenName})
	require.NoError(t, err)
	return value
}

// pykeenModelOf describes a model of PyKEEN.
type pykeenModelOf struct {
	name  string
	model attributes
	// interaction is nil if the model has no such module.
	interaction attributes
	// embeddings holds the attributes of single tables, such as relation_representations.0.
	embeddings map[string]attributes
	shapes     map[string][2]int
}

// folder returns a folder with the model and random tensors.
func (m pykeenModelOf) folder(t *testing.T) *Folder {
	f := toolFolder(m.shapes)
	f.Format, f.Metadata = pykeen, map[string]string{"model": m.name}
	modules := attributes{}
	if m.interaction != nil {
		modules["interaction"] = pickled{"pykeen.nn.modules.Interaction", m.interaction}
	}
	for name := range m.shapes {
		list, number, _ := strings.Cut(name, ".")
		if modules[list] == nil {
			modules[list] = pickled{"torch.nn.modules.container.ModuleList", attributes{"_modules": attributes{}}}
		}
		modules[list].(pickled).attributes["_modules"].(attributes)[number] =
			pickled{"pykeen.nn.representation.Embedding", m.embeddings[name]}
	}
	root := attributes{"_modules": modules}
	maps.Copy(root, m.model)
	f.value = readPickle(t, encode(pickled{"pykeen.models." + m.name, root}))
	return f
}

// projectionTables are the shapes of a model with the tables of TransH.
func projectionTables(d int) map[string][2]int {
	return map[string][2]int{
		"entity_representations.0": {toolEntities, d}, "relation_representations.0": {toolRelations, d},
		"relation_representations.1": {toolRelations, d},
	}
}

// PyKEEN's TransH scores with the normals in its first table of relations, as they are stored. Only
// the versions 1.10.0 to 1.10.2 take them from the second table. Models have a relation_inverter
// since version 1.10.0.
func TestPyKEENTransH(t *testing.T) {
	const d = 5
	for _, p := range []int{1, 2} {
		for _, inverter := range []bool{false, true} {
			m := pykeenModelOf{name: "TransH", interaction: attributes{"p": p}, shapes: projectionTables(d)}
			if inverter {
				m.model = attributes{"relation_inverter": pickled{"pykeen.inverse.DefaultRelationInverter", nil}}
			}
			f := m.folder(t)
			c, err := convertPyKEEN(f)
			require.NoError(t, err)
			checkTool(t, c, func(h, r, tail int) float64 {
				w, x := toolRow(t, f, "relation_representations.0", r), toolRow(t, f, "relation_representations.1", r)
				for _, side := range []struct {
					entity int
					sign   float64
				}{{h, 1}, {tail, -1}} {
					e := toolRow(t, f, "entity_representations.0", side.entity)
					c := toolDot(w, e)
					for i, v := range e {
						x[i] += side.sign * (v - c*w[i])
					}
				}
				return norm(p, x)
			})
			notes := strings.Join(c.Notes, "\n")
			if inverter {
				assert.Contains(t, notes, "PyKEEN 1.10.0 to 1.10.2")
				assert.Contains(t, notes, "mquine import --verify")
			} else {
				assert.NotContains(t, notes, "1.10", "an older version wrote the file")
			}
		}
	}
}

// PyKEEN's TransR shortens images in the norm of the score if it has the option max_projection_norm,
// since version 1.11.0, and otherwise in the L2 norm to length 1, as TransD always does. mquine
// shortens images only in the norm of the score, so it refuses other models.
func TestPyKEENImages(t *testing.T) {
	const d, k = 5, 3
	transR := map[string][2]int{
		"entity_representations.0": {toolEntities, d}, "relation_representations.0": {toolRelations, k},
		"relation_representations.1": {toolRelations, d * k},
	}
	transD := map[string][2]int{
		"entity_representations.0": {toolEntities, d}, "entity_representations.1": {toolEntities, d},
		"relation_representations.0": {toolRelations, k}, "relation_representations.1": {toolRelations, k},
	}
	for _, c := range []struct {
		name        string
		interaction attributes
		limit       float64 // 0 if the model is refused
	}{
		{"TransR", attributes{"p": 1, "max_projection_norm": 0.75}, 0.75},
		{"TransR", attributes{"p": 2, "max_projection_norm": 0.75}, 0.75},
		{"TransR", attributes{"p": 2}, 1}, {"TransR", attributes{"p": 1}, 0},
		{"TransD", attributes{"p": 2}, 1}, {"TransD", attributes{"p": 1}, 0},
		{"TransD", attributes{"p": 1, "max_projection_norm": 0.75}, 0},
	} {
		p := c.interaction["p"].(int)
		m := pykeenModelOf{name: c.name, interaction: c.interaction, shapes: transR}
		if c.name == "TransD" {
			m.shapes = transD
		}
		f := m.folder(t)
		converted, err := convertPyKEEN(f)
		if c.limit == 0 {
			require.EqualError(t, err, fmt.Sprintf(`folder holds model "%s" of PyKEEN (pykeen/pykeen), which mquine `+
				`cannot rank yet: its score has p = 1, but this version of PyKEEN bounds the images of entities in the `+
				`L2 norm, and mquine bounds them in the norm of the score`, c.name))
			continue
		}
		require.NoError(t, err)
		image := func(r, e int) []float64 {
			x, second := toolRow(t, f, "entity_representations.0", e), toolRow(t, f, "relation_representations.1", r)
			y := make([]float64, k)
			for j := range y {
				if c.name == "TransD" {
					y[j] = x[j] + second[j]*toolDot(x, toolRow(t, f, "entity_representations.1", e))
					continue
				}
				for i, v := range x {
					y[j] += v * second[i*k+j]
				}
			}
			if n := norm(p, y); n > c.limit {
				for j := range y {
					y[j] *= c.limit / n
				}
			}
			return y
		}
		checkTool(t, converted, func(h, r, tail int) float64 {
			x, y := image(r, h), image(r, tail)
			for j, v := range toolRow(t, f, "relation_representations.0", r) {
				x[j] += v - y[j]
			}
			return norm(p, x)
		})
	}
}

// A normalizer changes the rows before PyKEEN scores, so mquine refuses it, except on the relations
// of QuatE, which mquine's score always normalises.
func TestPyKEENNormalizers(t *testing.T) {
	normalize := pickle.Global{Module: "torch.nn.functional", Name: "normalize"}
	transE := map[string][2]int{
		"entity_representations.0": {toolEntities, 4}, "relation_representations.0": {toolRelations, 4},
	}
	cp := map[string][2]int{
		"entity_representations.0": {toolEntities, 4}, "entity_representations.1": {toolEntities, 4},
		"relation_representations.0": {toolRelations, 4},
	}
	for _, c := range []struct {
		name   string
		shapes map[string][2]int
		table  string
		value  any
	}{
		{"TransE", transE, "entity_representations.0", normalize},
		{"TransE", transE, "relation_representations.0", normalize},
		{"CP", cp, "entity_representations.1", pickled{"functools.partial", nil}},
	} {
		m := pykeenModelOf{name: c.name, interaction: attributes{"p": 1}, shapes: c.shapes,
			embeddings: map[string]attributes{c.table: {"normalizer": nil}}}
		_, err := convertPyKEEN(m.folder(t))
		require.NoError(t, err)
		m.embeddings[c.table]["normalizer"] = c.value
		_, err = convertPyKEEN(m.folder(t))
		require.EqualError(t, err, fmt.Sprintf(`folder holds model "%s" of PyKEEN (pykeen/pykeen), which mquine cannot `+
			`rank yet: the rows of %s have a normalizer, which mquine cannot apply`, c.name, c.table))
	}
}

// PyKEEN's QuatE scores −Σ ⟨h ⊗ r/|r|, t⟩, with the four parts of a quaternion in turn. Without a
// normalizer, r is not divided by |r|.
func TestPyKEENQuatE(t *testing.T) {
	const d = 3
	quat := attributes{"shape": []any{d, 4}, "normalizer": nil}
	m := pykeenModelOf{name: "QuatE", shapes: map[string][2]int{
		"entity_representations.0": {toolEntities, 4 * d}, "relation_representations.0": {toolRelations, 4 * d},
	}}
	for _, function := range []pickle.Global{
		{Module: "pykeen.nn.quaternion", Name: "normalize"},
		{Module: "pykeen.models.unimodal.quate", Name: "quaternion_normalizer"},
	} {
		m.embeddings = map[string]attributes{
			"entity_representations.0":   quat,
			"relation_representations.0": {"shape": []any{d, 4}, "normalizer": function},
		}
		f := m.folder(t)
		c, err := convertPyKEEN(f)
		require.NoError(t, err)
		checkTool(t, c, func(h, r, tail int) (sum float64) {
			x, y := toolRow(t, f, "entity_representations.0", h), toolRow(t, f, "entity_representations.0", tail)
			for i, q := 0, toolRow(t, f, "relation_representations.0", r); i < 4*d; i += 4 {
				a, b := x[i:i+4], toolUnit(q[i:i+4])
				sum += toolDot(y[i:i+4], []float64{
					a[0]*b[0] - a[1]*b[1] - a[2]*b[2] - a[3]*b[3],
					a[0]*b[1] + a[1]*b[0] + a[2]*b[3] - a[3]*b[2],
					a[0]*b[2] - a[1]*b[3] + a[2]*b[0] + a[3]*b[1],
					a[0]*b[3] + a[1]*b[2] - a[2]*b[1] + a[3]*b[0],
				})
			}
			return sum
		})
	}
	for _, shape := range []any{nil, []any{4 * d}, []any{4, d}, []any{1, d, 4}} {
		m.embeddings["entity_representations.0"] = attributes{"shape": shape}
		_, err := convertPyKEEN(m.folder(t))
		require.ErrorContains(t, err, "the rows of entity_representations.0 do not have the shape (d, 4)")
	}
	m.embeddings["relation_representations.0"] = quat
	_, err := convertPyKEEN(m.folder(t))
	require.ErrorContains(t, err, "its relations are not divided by their absolute values")
}

// Modules that contain themselves, or that share a module many times, are visited once. Modules that
// are nested too deeply are an error.
func TestPyKEENModules(t *testing.T) {
	// parent returns a module with the given submodules, under the names 0, 1, ….
	parent := func(submodules ...*pickle.Object) *pickle.Object {
		names := attributes{}
		for i := range submodules {
			names[fmt.Sprint(i)] = nil
		}
		m := readPickle(t, encode(pickled{"torch.nn.Module", attributes{"_modules": names}})).(*pickle.Object)
		for i, e := range entries(m, "_modules") {
			entries(m, "_modules")[i] = pickle.Entry{Key: e.Key, Value: submodules[i]}
		}
		return m
	}
	add := func(m *pickle.Object) error {
		f := &Folder{Path: "folder"}
		return f.addModule(parent(m), "0", map[*pickle.Object]bool{})
	}
	cycle := parent(nil)
	entries(cycle, "_modules")[0].Value = cycle
	require.NoError(t, add(cycle))

	shared, deep := parent(), parent()
	for range maxModuleDepth - 1 {
		deep = parent(deep)
	}
	require.NoError(t, add(deep))
	require.EqualError(t, add(parent(deep)), "folder/trained_model.pkl is damaged: a module of its interaction lies "+
		"deeper than 16 other modules, or has a name of more than 256 bytes")
	for range maxModuleDepth - 1 {
		children := make([]*pickle.Object, 10)
		for i := range children {
			children[i] = shared
		}
		shared = parent(children...) // 10¹⁵ paths lead to the innermost module
	}
	require.NoError(t, add(shared))
}

// BoxE and ConvE need the options of their interaction, so a model without one is refused. So is a
// ConvE model without the shapes of its layers.
func TestPyKEENWithoutInteraction(t *testing.T) {
	shapes := map[string][2]int{
		"entity_representations.0": {toolEntities, 4}, "entity_representations.1": {toolEntities, 1},
		"relation_representations.0": {toolRelations, 4},
	}
	for _, name := range []string{"BoxE", "ConvE"} {
		_, err := convertPyKEEN(pykeenModelOf{name: name, shapes: shapes}.folder(t))
		assert.ErrorContains(t, err, `model "`+name+`" of PyKEEN (pykeen/pykeen), which mquine cannot rank yet: `+
			"its interaction is missing")
	}
	_, err := convertPyKEEN(pykeenModelOf{name: "ConvE", interaction: attributes{}, shapes: shapes}.folder(t))
	assert.ErrorContains(t, err, "its filters are 0 × 0 for 0 input channels")
}

// PyKEEN's SimplE scores ½ Σ (a_h r a_t + b_h r' b_t), without a clamp.
func TestPyKEENSimplE(t *testing.T) {
	const d = 3
	m := pykeenModelOf{name: "SimplE", interaction: attributes{"clamp_score": nil}, shapes: map[string][2]int{}}
	for i := range 2 {
		m.shapes[fmt.Sprint("entity_representations.", i)] = [2]int{toolEntities, d}
		m.shapes[fmt.Sprint("relation_representations.", i)] = [2]int{toolRelations, d}
	}
	f := m.folder(t)
	c, err := convertPyKEEN(f)
	require.NoError(t, err)
	checkTool(t, c, func(h, r, tail int) (sum float64) {
		for i := range 2 {
			x, y := toolRow(t, f, fmt.Sprint("entity_representations.", i), h), make([]float64, d)
			for j, v := range toolRow(t, f, fmt.Sprint("relation_representations.", i), r) {
				y[j] = v * toolRow(t, f, fmt.Sprint("entity_representations.", i), tail)[j]
			}
			sum -= toolDot(x, y) / 2
		}
		return sum
	})
	for _, clamp := range []any{1.5, []any{-1.0, 1.0}} {
		m.interaction["clamp_score"] = clamp
		_, err := convertPyKEEN(m.folder(t))
		require.ErrorContains(t, err, "which mquine cannot rank yet: it has the option clamp_score")
	}
}

// norm returns the L1 or L2 norm.
func norm(p int, x []float64) (sum float64) {
	if p == 2 {
		return math.Sqrt(toolDot(x, x))
	}
	for _, v := range x {
		sum += math.Abs(v)
	}
	return sum
}

// The error about a batch normalisation is short for any ε.
func TestPyKEENEpsilon(t *testing.T) {
	epsilon := func(eps any) error {
		norm := pickled{"torch.nn.BatchNorm1d", attributes{"eps": eps}}
		f := pykeenModelOf{name: "TuckER", interaction: attributes{"_modules": attributes{"norm": norm}}}.folder(t)
		return f.checkEpsilon("norm")
	}
	require.NoError(t, epsilon(1e-5))
	assert.ErrorContains(t, epsilon(1e-3), `layer norm has ε = "0.001", not 1e-5`)
	pairs := any(1)
	for range 12 {
		pairs = []any{pairs, pairs}
	}
	for _, eps := range []any{nil, pairs, strings.Repeat("x", 1000)} {
		err := epsilon(eps)
		require.ErrorContains(t, err, "layer norm has ε = ")
		assert.Less(t, len(err.Error()), 300)
	}
}

// pandas writes PyKEEN's vocabularies, and puts a label with a double quote in quotes.
func TestPyKEENVocabularies(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "training_triples"), 0o755))
	for _, name := range []string{pykeenFiles.entities, pykeenFiles.relations} {
		var file bytes.Buffer
		z := gzip.NewWriter(&file)
		_, err := z.Write([]byte("id\tlabel\n0\t\"5'10\"\"\"\n1\tplain\n"))
		require.NoError(t, err)
		require.NoError(t, z.Close())
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), file.Bytes(), 0o644))
	}
	v, err := readPair(t.Context(), dir, pykeenFiles)
	require.NoError(t, err)
	assert.Equal(t, []string{`5'10"`, "plain"}, v.entities.Labels())
	assert.Equal(t, []string{`5'10"`, "plain"}, v.relations.Labels())
}
