package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint/formats"
	"github.com/mquine/mquine/model/checkpoint/internal/mapped"
	"github.com/mquine/mquine/model/checkpoint/npy"
)

// The training code of the RotatE repository
// (https://github.com/DeepGraphLearning/KnowledgeGraphEmbedding) writes this folder:
//
//	config.json             the options of the training run
//	entity_embedding.npy    float32 [N, hidden_dim], or twice as wide with double_entity_embedding
//	relation_embedding.npy  float32 [R, hidden_dim], or twice as wide with double_relation_embedding
//
// The vocabularies, entities.dict and relations.dict, belong to the data set. Open looks for them
// in the folder itself, then in the folder that VocabularyFolder names, then in data_path of
// config.json. It does not read the file "checkpoint", which is a pickle. Only that file contains
// pRotatE's modulus, on which no rank depends.
const (
	rotateName      = formats.Rotate
	rotateConfig    = "config.json"
	rotateEntities  = "entity_embedding.npy"
	rotateRelations = "relation_embedding.npy"

	// oteRange is the embedding range in the fork KGEmbedding-OTE, whose config.json has ote_size.
	oteRange = 0.01

	// maxConfig limits the size of config.json, in bytes.
	maxConfig = 1 << 20
)

// rotateModels maps the repository's models to names in package model and to the widths of the
// rows, as multiples of hidden_dim. Width 0 means 1 or 2, the same for both tables.
var rotateModels = map[string]struct {
	name             string
	entity, relation int
}{
	"TransE":   {"transe-l1", 0, 0},
	"DistMult": {"distmult", 0, 0},
	"ComplEx":  {"complex", 2, 2},
	"RotatE":   {"rotate", 2, 1},
	"pRotatE":  {"protate", 0, 0},
}

// openRotate opens the two tables and, if possible, reads config.json.
func openRotate(ctx context.Context, dir string) (_ *source, err error) {
	f := &source{path: dir, metadata: map[string]string{}}
	defer f.closeAfter(&err)
	defer fault.Guard().Catch(&err)
	for _, t := range [][2]string{{"entity", rotateEntities}, {"relation", rotateRelations}} {
		path := filepath.Join(dir, t[1])
		file, err := npy.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s is missing: a folder of the RotatE repository holds %s, %s and %s",
				path, rotateConfig, rotateEntities, rotateRelations)
		}
		if err != nil {
			return nil, err
		}
		if err := f.add(ctx, file); err != nil {
			return nil, err
		}
		f.tensors = append(f.tensors, tensor{path, t[0], "F32", file.Shape(), file.Float32})
	}
	// An unreadable configuration is not an error here, because Inspect needs only the tables;
	// readRotate reports it.
	if config, err := readRotateConfig(filepath.Join(dir, rotateConfig)); err == nil {
		f.metadata = config.text()
	}
	return f, nil
}

// readRotate completes c from a folder of the RotatE repository.
func (c *Checkpoint) readRotate(ctx context.Context, o options) error {
	options, err := readRotateConfig(filepath.Join(c.Path, rotateConfig))
	if err != nil {
		return err
	}
	config, widths := options.model()
	dataPath := options.string("data_path")
	keys := [2]string{"nentity", "nrelation"}
	rows := [2]int{options.integer(keys[0]), options.integer(keys[1])}
	if options.err != nil {
		return options.err
	}
	if c.VocabularyDir, err = c.findVocabularies(ctx, o, dataPath); err != nil {
		return err
	}
	if dataPath == "" {
		dataPath = c.VocabularyDir
	}
	if dataPath, err = filepath.Abs(dataPath); err != nil {
		return err
	}
	c.Dataset = filepath.Base(dataPath)

	for i, t := range c.source.tensors {
		if want := []int{rows[i], widths[i]}; !slices.Equal(t.shape, want) {
			return fmt.Errorf("%s: tensor %q has shape %v, but the options in %s "+
				"(%s, hidden_dim, doubled embeddings) need %v", t.path, t.name, t.shape, rotateConfig, keys[i], want)
		}
	}
	return c.build(ctx, config, fmt.Sprintf("d = %d, %s and %s (in %s)", config.Dim,
		text.Plural(c.Entities.Len(), "entity"), text.Plural(c.Relations.Len(), "relation"), c.VocabularyDir))
}

// findVocabularies reads the vocabularies of a folder of the RotatE repository and returns their
// folder.
func (c *Checkpoint) findVocabularies(ctx context.Context, o options, dataPath string) (dir string, err error) {
	c.Entities, c.Relations, err = readVocabularies(ctx, c.Path)
	if err == nil {
		return c.Path, c.checkVocabularies(ctx, o)
	}
	if !errors.Is(err, errNoVocabulary) {
		return "", err
	}
	if o.vocabulary != "" {
		c.Entities, c.Relations, err = readVocabulariesGiven(ctx, o.vocabulary)
		return o.vocabulary, err
	}
	if dataPath != "" {
		c.Entities, c.Relations, err = readVocabularies(ctx, dataPath)
		if err == nil || !errors.Is(err, errNoVocabulary) {
			return dataPath, err
		}
	}
	return "", fmt.Errorf("%s has no entities.dict and relations.dict, and neither does the data_path in its %s "+
		"(%.200q): copy them into it, or name their folder with --vocab", c.Path, rotateConfig, dataPath)
}

// rotateOptions holds the options in config.json. Its methods record the first error in err.
type rotateOptions struct {
	path   string
	values map[string]any
	err    error
}

func readRotateConfig(path string) (_ *rotateOptions, err error) {
	file, err := mapped.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: without the training options, no scores can be computed", path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	defer file.Close()
	defer fault.Guard().Catch(&err)
	contents := file.Contents()
	if len(contents) > maxConfig {
		return nil, fmt.Errorf("%s has %d bytes, which is too many for training options", path, len(contents))
	}
	d := json.NewDecoder(bytes.NewReader(contents))
	d.UseNumber()
	o := &rotateOptions{path: path}
	switch err := d.Decode(&o.values); {
	case errors.As(err, new(*json.UnmarshalTypeError)): // a JSON value of a different kind
		return nil, fmt.Errorf("%s is not a single JSON object", path)
	case err != nil:
		return nil, fmt.Errorf("%s is not a JSON object: %w", path, err)
	}
	if o.values == nil || d.More() {
		return nil, fmt.Errorf("%s is not a single JSON object", path)
	}
	return o, nil
}

// model returns the configuration of the model, without the numbers of entities and relations, and
// the widths of the two tables.
func (o *rotateOptions) model() (config model.Config, widths [2]int) {
	name := o.string("model")
	m, known := rotateModels[name]
	if !known {
		o.fail("model %.40q is unknown: the RotatE repository has TransE, DistMult, ComplEx, RotatE and pRotatE", name)
	}
	hidden, gamma := o.integer("hidden_dim"), o.number("gamma")
	double := [2]string{"double_entity_embedding", "double_relation_embedding"}
	doubled := [2]bool{o.boolean(double[0]), o.boolean(double[1])}
	for i := range widths {
		widths[i] = hidden
		if doubled[i] {
			widths[i] *= 2
		}
	}
	span := model.DefaultRange(gamma, hidden)
	if _, ote := o.values["ote_size"]; ote {
		span = oteRange
	}
	config = model.Config{Model: m.name, Dim: hidden, Hyper: map[string]float64{
		model.Gamma: gamma, model.EmbeddingRange: span,
	}}
	if m.entity == 0 {
		// Here doubling only adds dimensions. The embedding range still follows from hidden_dim.
		config.Dim = widths[0]
		if widths[0] != widths[1] {
			o.fail("%s needs %s and %s to be equal", name, double[0], double[1])
		}
		return config, widths
	}
	for i, want := range [2]int{m.entity, m.relation} {
		if doubled[i] != (want == 2) {
			o.fail("%s needs %s to be %t", name, double[i], want == 2)
		}
	}
	return config, widths
}

// fail records an error, unless there is one.
func (o *rotateOptions) fail(format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf("%s: "+format, append([]any{o.path}, args...)...)
	}
}

// wrong records that the value of an option is of the wrong kind.
func (o *rotateOptions) wrong(key, want string) {
	if v, given := o.values[key]; given {
		o.fail("option %q is %.40q, not %s", key, fmt.Sprint(v), want)
	} else {
		o.fail("option %q is missing", key)
	}
}

// string returns a string option, or "" if it is null or missing.
func (o *rotateOptions) string(key string) string {
	text, ok := o.values[key].(string)
	if !ok && o.values[key] != nil {
		o.wrong(key, "a string")
	}
	return text
}

func (o *rotateOptions) boolean(key string) bool {
	v, ok := o.values[key].(bool)
	if !ok {
		o.wrong(key, "true or false")
	}
	return v
}

// integer returns a number of rows or columns.
func (o *rotateOptions) integer(key string) int {
	v, _ := o.values[key].(json.Number)
	n, err := strconv.ParseInt(v.String(), 10, 32)
	if err != nil || n < 1 {
		o.wrong(key, "a positive integer")
	}
	return int(n)
}

func (o *rotateOptions) number(key string) float64 {
	v, _ := o.values[key].(json.Number)
	x, err := strconv.ParseFloat(v.String(), 64)
	if err != nil || math.IsInf(x, 0) {
		o.wrong(key, "a number")
	}
	return x
}

// text returns the options as metadata. It omits nulls, lists and objects.
func (o *rotateOptions) text() map[string]string {
	text := map[string]string{}
	for key, value := range o.values {
		switch v := value.(type) {
		case string, bool, json.Number:
			text[key] = fmt.Sprint(v)
		}
	}
	return text
}
