package checkpoint

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint/formats"
	"github.com/mquine/mquine/model/checkpoint/internal/mapped"
	"github.com/mquine/mquine/model/checkpoint/npy"
)

// ExportFormat is a form in which Export writes a checkpoint for other programs.
type ExportFormat struct {
	Name string
	// Python is a line of Python that loads a part of an export from the folder OUT.
	Python string
	// write writes the files to a folder.
	write func(ctx context.Context, c *Checkpoint, dir string) error
}

// String returns the name.
func (f *ExportFormat) String() string { return f.Name }

// ExportFormats lists the forms.
//
//   - npy: a NumPy file for each tensor, the model's configuration in config.json, and the labels in
//     entities.tsv and relations.tsv. Open also reads such folders.
//   - safetensors: the format mquine/1.
//   - word2vec: the vectors of the entities and of the relations in the binary format of word2vec. The
//     vector of an entity consists of its rows in all tensors. Global tensors are not written.
//   - libkge-ids: like npy, with the labels in LibKGE's files entity_ids.del and relation_ids.del.
var ExportFormats = []*ExportFormat{
	{"npy", `entity = numpy.load("OUT/entity.npy")`,
		func(ctx context.Context, c *Checkpoint, dir string) error {
			return c.writeNpy(ctx, dir, entitiesName, relationsName)
		}},
	{"safetensors", `tensors = safetensors.numpy.load_file("OUT/model.safetensors")`,
		func(ctx context.Context, c *Checkpoint, dir string) error {
			return c.writeMquine(ctx, dir)
		}},
	{"word2vec", `entity = KeyedVectors.load_word2vec_format("OUT/entities.bin", binary=True)`,
		func(ctx context.Context, c *Checkpoint, dir string) error {
			return c.writeWord2vec(ctx, dir)
		}},
	{"libkge-ids", `ids = dict(l[:-1].split("\t") for l in open("OUT/entity_ids.del"))`,
		func(ctx context.Context, c *Checkpoint, dir string) error {
			return c.writeNpy(ctx, dir, "entity_ids.del", "relation_ids.del")
		}},
}

// Export writes c to the folder dir, which must not exist. The folder appears only once it is complete
// and synced to disk. Export returns an error if the files of c change while it runs.
func (c *Checkpoint) Export(ctx context.Context, dir string, to *ExportFormat) error {
	dir = filepath.Clean(dir)
	err := atomicfile.Folder(dir, func(temporary string) (err error) {
		defer fault.Guard().Catch(&err)
		if err := to.write(ctx, c, temporary); err != nil {
			return err
		}
		return c.Verify(ctx)
	})
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return fmt.Errorf("exporting to %s: %w", dir, err)
}

// writeMquine writes the files of format mquine/1.
func (c *Checkpoint) writeMquine(ctx context.Context, dir string) error {
	tensors, err := parameters(ctx, c.Model, c.Entities, c.Relations)
	if err != nil {
		return err
	}
	metadata := maps.Clone(c.Metadata)
	metadata[datasetKey] = c.Dataset
	return fillFolder(ctx, dir, c.Model, c.Entities, c.Relations, tensors, metadata)
}

// writeNpy writes a file for each tensor, the configuration and the vocabularies.
func (c *Checkpoint) writeNpy(ctx context.Context, dir, entities, relations string) error {
	config := c.Model.Config()
	parameters, err := model.Parameters(config)
	if err != nil {
		return err
	}
	for i, values := range c.Model.Tensors() {
		path := filepath.Join(dir, parameters[i].Name+".npy")
		if err := npy.WriteFile(ctx, path, parameters[i].Dims(), values); err != nil {
			return err
		}
	}
	metadata, err := describeModel(config, c.Metadata)
	if err != nil {
		return err
	}
	options := map[string]any{}
	for key, value := range metadata {
		options[key] = value
		if _, set := config.Hyper[key]; set || key == dimKey || key == inverseWeightKey {
			options[key] = json.Number(value)
		}
	}
	for _, key := range []string{entitiesSHA256Key, relationsSHA256Key, checksumKey} {
		delete(options, key) // these entries describe the files of the checkpoint
	}
	options[formatKey], options[reciprocalKey] = formats.ExportFormat, config.Reciprocal
	if options[datasetKey] = c.Dataset; c.Dataset == UnknownDataset {
		delete(options, datasetKey)
	}
	text, err := json.MarshalIndent(options, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if len(text) > formats.MaxOptions {
		return fmt.Errorf("%s with the metadata of the checkpoint would have %d bytes, but mquine reads at most %d: "+
			"choose the format safetensors", formats.ExportConfig, len(text), formats.MaxOptions)
	}
	if err := atomicfile.WriteBytes(filepath.Join(dir, formats.ExportConfig), text); err != nil {
		return err
	}
	if err := kg.WriteVocabulary(filepath.Join(dir, entities), c.Entities); err != nil {
		return err
	}
	return kg.WriteVocabulary(filepath.Join(dir, relations), c.Relations)
}

// writeWord2vec writes entities.bin and relations.bin. Each file begins with a line that gives the
// number of labels and the number of elements in a vector. Then come the labels, each followed by a
// space, its vector as little-endian float32 and a newline.
func (c *Checkpoint) writeWord2vec(ctx context.Context, dir string) error {
	parameters, err := model.Parameters(c.Model.Config())
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name   string
		axis   model.Axis
		labels *kg.Vocabulary
	}{{"entities.bin", model.PerEntity, c.Entities}, {"relations.bin", model.PerRelation, c.Relations}} {
		var tables [][]float32
		width := 0
		for i, p := range parameters {
			if p.Axis == f.axis {
				tables = append(tables, c.Model.Tensors()[i])
				width += p.Width()
			}
		}
		for _, label := range f.labels.Labels() {
			if strings.ContainsAny(label, " \n") {
				return fmt.Errorf("label %.80q contains a space, which would end a label in the format word2vec: "+
					"choose another format", label)
			}
		}
		err := atomicfile.Write(filepath.Join(dir, f.name), func(w io.Writer) error {
			return writeVectors(ctx, bufio.NewWriter(w), f.labels.Labels(), width, tables)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// writeVectors writes the first line of a file and then, for each label, the label and its rows in
// all tables, one after another.
func writeVectors(ctx context.Context, w *bufio.Writer, labels []string, width int, tables [][]float32) error {
	fmt.Fprintf(w, "%d %d\n", len(labels), width)
	for i, label := range labels {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, _ = w.WriteString(label + " ") // Flush reports the first error of w
		for _, table := range tables {
			n := len(table) / len(labels)
			_, _ = w.Write(mapped.Bytes(table[i*n:][:n]))
		}
		_ = w.WriteByte('\n')
	}
	return w.Flush()
}
