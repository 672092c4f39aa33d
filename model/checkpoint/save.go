package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint/safetensors"
)

// Save writes a checkpoint to the folder dir, which must not exist. It creates parent folders. The
// folder appears only once it is complete and synced to disk; after an error or a cancelled context
// it does not exist.
//
// metadata must contain "dataset". Save itself sets "format", "model", "dim", "reciprocal", the
// model's hyper-parameters, the hashes of the vocabularies and the checksum of the parameters. A
// parameter that is NaN or infinite, or an empty vocabulary, is an error, because Open would refuse
// it. So is an ensemble: save its members.
func Save(ctx context.Context, dir string, m model.Model, entities, relations *kg.Vocabulary,
	metadata map[string]string) error {
	unverified := func(context.Context) error { return nil }
	return saveVerified(ctx, dir, m, entities, relations, metadata, unverified)
}

// Save writes c to the folder dir in the format mquine/1, as the function Save does. It returns an
// error if the files of c change while it runs.
func (c *Checkpoint) Save(ctx context.Context, dir string, metadata map[string]string) error {
	if c.source.files == nil { // the parameters are no longer in memory
		return c.source.closed()
	}
	return saveVerified(ctx, dir, c.Model, c.Entities, c.Relations, metadata, c.Verify)
}

// Import writes c, a checkpoint of another tool, to the folder dir in the format mquine/1, as Save does.
// The metadata names the tool, the checksum of its files and what Notes says, so that the copy keeps them. If
// c is an export of an imported checkpoint, the tool and the checksum are still of the first import.
func (c *Checkpoint) Import(ctx context.Context, dir string) error {
	metadata := maps.Clone(c.Metadata)
	metadata[datasetKey] = c.Dataset
	if _, again := metadata[importedFromKey]; !again {
		sum, err := c.SHA256(ctx)
		if err != nil {
			return err
		}
		metadata[importedFromKey], metadata[importedSHA256Key] = c.Format, sum
	}
	if c.Notes != nil {
		metadata[importedNotesKey] = strings.Join(c.Notes, "\n")
	}
	return c.Save(ctx, dir, metadata)
}

// Tool returns the name of the format in which the parameters were written first: Format, or the format that
// Import converted.
func (c *Checkpoint) Tool() string { return cmp.Or(c.Metadata[importedFromKey], c.Format) }

// importedNotes returns the notes that Import stored.
func (c *Checkpoint) importedNotes() []string {
	stored, ok := c.Metadata[importedNotesKey]
	if !ok {
		return nil
	}
	return strings.Split(stored, "\n")
}

// saveVerified implements Save. The folder appears only if verify, called after all files are
// written, returns nil.
func saveVerified(ctx context.Context, dir string, m model.Model, entities, relations *kg.Vocabulary,
	metadata map[string]string, verify func(context.Context) error) error {
	dir = filepath.Clean(dir)
	tensors, err := parameters(ctx, m, entities, relations)
	if err == nil {
		err = atomicfile.Folder(dir, func(temporary string) error {
			if err := fillFolder(ctx, temporary, m, entities, relations, tensors, metadata); err != nil {
				return err
			}
			return verify(ctx)
		})
	}
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return fmt.Errorf("saving checkpoint %s: %w", dir, err)
}

// fillFolder writes the files of a checkpoint to the folder dir.
func fillFolder(ctx context.Context, dir string, m model.Model, entities, relations *kg.Vocabulary,
	tensors []safetensors.Float32, metadata map[string]string) error {
	if err := kg.WriteVocabulary(filepath.Join(dir, entitiesName), entities); err != nil {
		return err
	}
	if err := kg.WriteVocabulary(filepath.Join(dir, relationsName), relations); err != nil {
		return err
	}
	return writeParameters(ctx, dir, m, tensors, metadata)
}

// Replace replaces the model of the checkpoint in the folder dir. It writes only model.safetensors,
// atomically: after an error or a cancelled context, the old file is still there. The vocabularies
// must equal the checkpoint's. Programs that have the checkpoint open keep the old model. As for
// Save, metadata must contain "dataset".
func Replace(ctx context.Context, dir string, m model.Model, entities, relations *kg.Vocabulary,
	metadata map[string]string) error {
	dir = filepath.Clean(dir)
	if err := replace(ctx, dir, m, entities, relations, metadata); err != nil {
		return fmt.Errorf("replacing checkpoint %s: %w", dir, err)
	}
	return nil
}

func replace(ctx context.Context, dir string, m model.Model, entities, relations *kg.Vocabulary,
	metadata map[string]string) error {
	tensors, err := parameters(ctx, m, entities, relations)
	if err != nil {
		return err
	}
	if err := sameLabels(ctx, filepath.Join(dir, entitiesName), entities); err != nil {
		return err
	}
	if err := sameLabels(ctx, filepath.Join(dir, relationsName), relations); err != nil {
		return err
	}
	return writeParameters(ctx, dir, m, tensors, metadata)
}

func sameLabels(ctx context.Context, path string, v *kg.Vocabulary) error {
	there, err := kg.ReadVocabulary(ctx, path)
	if err != nil {
		return err
	}
	if !slices.Equal(there.Labels(), v.Labels()) {
		return fmt.Errorf("the labels in %s or their order differ from the model's: choose another folder", path)
	}
	return nil
}

// parameters checks a model before it is saved, and returns its tensors.
func parameters(ctx context.Context, m model.Model, entities, relations *kg.Vocabulary) ([]safetensors.Float32, error) {
	switch {
	case m == nil:
		return nil, errors.New("the model is nil: give one")
	case m.Config().Model == model.EnsembleName:
		return nil, errors.New("an ensemble cannot be saved: save its members")
	case entities == nil || relations == nil:
		return nil, errors.New("a checkpoint needs a vocabulary of entities and one of relations")
	}
	config := m.Config()
	if entities.Len() != config.Entities || relations.Len() != config.Relations {
		return nil, fmt.Errorf("the model has %d entities and %d relations, but its vocabularies have %d and %d labels",
			config.Entities, config.Relations, entities.Len(), relations.Len())
	}
	if err := checkLabels("its vocabulary", entities, relations); err != nil {
		return nil, err
	}
	list, err := model.Parameters(config)
	if err != nil {
		return nil, err
	}
	tensors := make([]safetensors.Float32, len(list))
	for i, values := range m.Tensors() {
		if err := checkFinite(ctx, "", "", list[i], values); err != nil {
			return nil, err
		}
		tensors[i] = safetensors.Float32{Name: list[i].Name, Shape: list[i].Dims(), Values: values}
	}
	return tensors, nil
}

// writeParameters writes model.safetensors to a folder that already has the vocabularies.
func writeParameters(ctx context.Context, dir string, m model.Model, tensors []safetensors.Float32,
	metadata map[string]string) error {
	path := filepath.Join(dir, parametersName)
	all, err := describeModel(m.Config(), metadata)
	if err != nil {
		return err
	}
	all[formatKey] = formatName
	if all[entitiesSHA256Key], err = fileSHA256(filepath.Join(dir, entitiesName)); err != nil {
		return err
	}
	if all[relationsSHA256Key], err = fileSHA256(filepath.Join(dir, relationsName)); err != nil {
		return err
	}
	if all[checksumKey], err = checksum(ctx, m.Tensors()); err != nil {
		return err
	}
	if _, err := configOf(all); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return safetensors.WriteFile(ctx, path, all, tensors...)
}

// describeModel returns the metadata with the model's name, dimension and hyper-parameters.
func describeModel(config model.Config, metadata map[string]string) (map[string]string, error) {
	spec, err := model.Lookup(config.Model)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	maps.Copy(all, metadata)
	all[modelKey], all[dimKey] = config.Model, strconv.Itoa(config.Dim)
	delete(all, reciprocalKey)
	if config.Reciprocal {
		all[reciprocalKey] = "true"
	}
	delete(all, inverseWeightKey)
	if config.InverseWeight != 0 {
		all[inverseWeightKey] = strconv.FormatFloat(config.InverseWeight, 'g', -1, 64)
	}
	for _, h := range spec.Hyper {
		delete(all, h.Key)
		if v := h.Of(config); v != h.Default {
			all[h.Key] = strconv.FormatFloat(v, 'g', -1, 64)
		}
	}
	return all, nil
}
