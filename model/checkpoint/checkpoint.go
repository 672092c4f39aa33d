// Package checkpoint reads and writes trained models.
//
// A checkpoint in the format mquine/1 is a folder of three files:
//
//	model.safetensors   float32 parameters, with the names and shapes of model.Parameters
//	entities.tsv        the labels of the entities: lines id<TAB>label
//	relations.tsv       the labels of the relations
//
// docs/checkpoint.md describes the metadata of model.safetensors. Package checkpoint also reads the
// folders of other tools, in the formats of package formats.
//
// Begin with [Open] and [Save]. [Inspect] describes checkpoints that may be damaged.
package checkpoint

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mquine/mquine/internal/fault"
	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/model/checkpoint/formats"
	"github.com/mquine/mquine/model/checkpoint/safetensors"
)

// Checkpoint is an open checkpoint: a model with the labels of its entities and relations.
type Checkpoint struct {
	// Path is the folder of the checkpoint, or a file in it if Open was given a file.
	Path string
	// Format is "mquine/1" or the name of a format in package formats.
	Format string
	// Notes says what was converted, and how printed scores differ from the scores of the tool
	// that wrote the checkpoint.
	Notes []string
	// Model holds the parameters, which may be memory-mapped files, so do not use Model after
	// Close. The memory of the parameters is read-only: a write to it faults. To train the model
	// further, copy Model.Tensors and make a model from the copies with model.New. A program that
	// writes to the files changes the model; Verify detects the change. If a program truncates the
	// files, reads of the model fault. Functions that guard their reads (package fault), such as
	// rank.Run, rank.Predict and Save, then return an error. Any other read crashes the process.
	Model               model.Model
	Entities, Relations *kg.Vocabulary
	// VocabularyDir is the folder of the vocabularies, which may differ from Path.
	VocabularyDir string
	// Dataset names the data set that the model was trained on, or is UnknownDataset.
	Dataset string
	// Metadata holds the metadata of the checkpoint, as text. Do not modify it.
	Metadata map[string]string

	source *source
	// toolScore returns the score that the tool prints, given the model's score. Nil means that the
	// two scores are equal.
	toolScore func(score float64) float64
}

// UnknownDataset stands for the name of a data set that a checkpoint does not name. The format mquine/1
// stores it, because the format requires a name.
const UnknownDataset = "unknown"

// Option is an option of Open.
type Option func(*options)

type options struct {
	format     string
	vocabulary string
	ifMissing  bool
}

// InFormat names the format, which Open otherwise recognises from the names of the files. It has no
// effect if the folder has no files of this format.
func InFormat(name string) Option { return func(o *options) { o.format = name } }

// VocabularyFolder names the folder with the vocabularies for a checkpoint that has none. The folder
// holds the vocabulary files of the tool that wrote the checkpoint, or of any other tool. If the
// checkpoint has its own vocabularies, they must equal the vocabularies in the folder.
// VocabularyFolder and MissingVocabularies replace each other; the last one applies.
func VocabularyFolder(dir string) Option {
	return func(o *options) { o.vocabulary, o.ifMissing = dir, false }
}

// MissingVocabularies is like VocabularyFolder, but has no effect on a checkpoint that has its own
// vocabularies. Use it for a list of checkpoints if only some of them need the folder.
func MissingVocabularies(dir string) Option {
	return func(o *options) { o.vocabulary, o.ifMissing = dir, true }
}

// Open opens the checkpoint in the folder dir. It checks that the parameters have the model's names
// and shapes, that every parameter is finite, and that the vocabularies have one label for each
// row. An error names the file and says what is wrong with it. If a folder of ConvE, LibKGE, OpenKE,
// SimplE or TuckER holds several checkpoints, dir may name one of the files.
//
// If ctx is cancelled, Open returns its error at once and abandons the work, which may read the files
// a little longer.
//
// Results computed with the checkpoint are valid only if Verify, called afterwards, returns nil.
func Open(ctx context.Context, dir string, with ...Option) (*Checkpoint, error) {
	var o options
	for _, option := range with {
		option(&o)
	}
	return input.Await(ctx, func() (*Checkpoint, error) { return open(ctx, dir, o) })
}

func open(ctx context.Context, dir string, o options) (*Checkpoint, error) {
	format, src, err := openSource(ctx, dir, o.format, safetensors.Open)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Path: dir, Format: format.name, Metadata: src.metadata, source: src}
	return c.complete(ctx, func() error { return format.read(c, ctx, o) })
}

// complete completes c with the function read. It returns c or, after an error, closes it. It closes
// c, too, if ctx is cancelled, because Open has then returned without it.
func (c *Checkpoint) complete(ctx context.Context, read func() error) (*Checkpoint, error) {
	if err := cmp.Or(read(), ctx.Err()); err != nil {
		err = cmp.Or(c.source.verify(ctx), err) // a file may look damaged while another program writes it
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// format is the name of a checkpoint format and the function that completes a checkpoint whose files
// are open.
type format struct {
	name string
	read func(c *Checkpoint, ctx context.Context, o options) error
}

// source holds the open parameter files of a checkpoint.
type source struct {
	// path is the parameter file, or the folder of the parameter files if there are several.
	path     string
	metadata map[string]string
	tensors  []tensor
	// files lists the files in the order in which sha256 hashes them. The hashes of their contents
	// are recorded (Mark) before the first use. Close sets files to nil.
	files []formats.File
}

// add adds an open file and records hashes of its contents (Mark).
func (s *source) add(ctx context.Context, f formats.File) error {
	s.files = append(s.files, f)
	return f.Mark(ctx)
}

// tensor is a tensor in a file.
type tensor struct {
	path, name, dtype string
	shape             []int
	// values returns the elements as float32. The result may share the memory of the mapped file.
	// values is nil if the elements cannot be converted. Call it under fault.Guard.
	values func() []float32
}

// openSource recognises the format of the folder dir, unless wanted names it, and opens its
// parameters.
func openSource(ctx context.Context, dir, wanted string, open opener) (format, *source, error) {
	info, err := os.Stat(dir)
	if f := formats.Lookup(wanted); err == nil && f != nil && f.Reads(dir) {
		return openForeign(ctx, f, dir)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return format{}, nil, fmt.Errorf("there is no checkpoint %s: no such file or folder", dir)
	case err != nil:
		return format{}, nil, fmt.Errorf("cannot open checkpoint %s: %w", dir, text.Cause(err))
	case !info.IsDir() && formats.Find(dir) == nil:
		return format{}, nil, fmt.Errorf("%s is not a folder: give the folder of the checkpoint%s", dir, folderOf(dir))
	}
	_, err = os.Stat(filepath.Join(dir, parametersName))
	if info.IsDir() && !errors.Is(err, fs.ErrNotExist) {
		src, err := openMquine(ctx, dir, open)
		return format{formatName, (*Checkpoint).readMquine}, src, err
	}
	switch found := formats.Find(dir); len(found) {
	case 0:
	case 1:
		return openForeign(ctx, found[0], dir)
	default:
		return format{}, nil, fmt.Errorf("%s has files of %s and of %s: name the file of the checkpoint instead of "+
			"the folder, or convert the folder with mquine import --from %s or --from %s",
			dir, found[0].Name, found[1].Name, found[0].Name, found[1].Name)
	}
	return format{}, nil, fmt.Errorf("%s is not a checkpoint: it has no %s and no files of %s; "+
		"mquine import --help lists the files of each", dir, parametersName, strings.Join(formats.Names(), ", "))
}

// folderOf returns ", DIR" if the folder DIR of a file is a checkpoint, or "".
func folderOf(file string) string {
	dir := filepath.Dir(file)
	if _, err := os.Stat(filepath.Join(dir, parametersName)); err == nil || formats.Find(dir) != nil {
		return ", " + dir
	}
	return ""
}

// sha256 returns the hash of the files' concatenated contents, in hex.
func (s *source) sha256(ctx context.Context) (_ string, err error) {
	if s.files == nil {
		return "", s.closed()
	}
	defer fault.Guard().Catch(&err)
	h := sha256.New()
	for _, file := range s.files {
		for chunk := range slices.Chunk(file.Bytes(), 1<<20) {
			if err := ctx.Err(); err != nil {
				return "", err
			}
			h.Write(chunk)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// verify returns an error if a file has changed since it was opened. It checks the files in the
// reverse order of opening. The file that was opened first is therefore known to be unchanged for
// the longest period, which contains the periods of all others.
func (s *source) verify(ctx context.Context) error {
	if s.files == nil {
		return s.closed()
	}
	for _, file := range slices.Backward(s.files) {
		if err := file.Verify(ctx); err != nil {
			return err
		}
	}
	return nil
}

// closed returns the error for the use of a closed source.
func (s *source) closed() error { return fmt.Errorf("checkpoint %s is closed: open it again", s.path) }

// closeAfter closes the source if *err is not nil. Defer it.
func (s *source) closeAfter(err *error) {
	if *err != nil {
		_ = s.Close()
	}
}

func (s *source) Close() error {
	var errs []error
	for _, file := range s.files {
		errs = append(errs, file.Close())
	}
	s.files = nil
	return errors.Join(errs...)
}

// build creates the model of c from its files. c must already have its vocabularies. named
// describes the expected sizes in error messages.
func (c *Checkpoint) build(ctx context.Context, config model.Config, named string) (err error) {
	config.Entities, config.Relations = c.Entities.Len(), c.Relations.Len()
	parameters, err := model.Parameters(config)
	if err != nil {
		return fmt.Errorf("%s: %w", c.source.path, err)
	}
	for _, t := range c.source.tensors {
		if !slices.ContainsFunc(parameters, func(p model.Parameter) bool { return p.Name == t.name }) {
			return fmt.Errorf("%s: model %[3]s has no tensor %.80[2]q", t.path, t.name, config.Model)
		}
	}
	values := make([][]float32, len(parameters))
	defer fault.Guard().Catch(&err)
	for i, p := range parameters {
		at := slices.IndexFunc(c.source.tensors, func(t tensor) bool { return t.name == p.Name })
		if at < 0 {
			return fmt.Errorf("%s: tensor %q of model %s is missing", c.source.path, p.Name, config.Model)
		}
		t := c.source.tensors[at]
		if dims := p.Dims(); !slices.Equal(t.shape, dims) {
			return fmt.Errorf("%s: tensor %q has shape %v, but %s with %s needs %v",
				t.path, p.Name, t.shape, config.Model, named, dims)
		}
		if t.values == nil {
			return fmt.Errorf("%s: tensor %.80q is %s, but only F32 can be read: "+
				"convert it to float32 and save it again", t.path, t.name, t.dtype)
		}
		values[i] = t.values()
		if err := checkFinite(ctx, t.path+": ", t.dtype, p, values[i]); err != nil {
			return err
		}
	}
	if c.Model, err = model.New(config, values); err != nil {
		return fmt.Errorf("%s: %w", c.source.path, err)
	}
	return nil
}

// checkLabels returns an error if a vocabulary is empty. The message begins with the text in what.
func checkLabels(what string, entities, relations *kg.Vocabulary) error {
	for _, v := range []struct {
		*kg.Vocabulary
		of string
	}{{entities, "entities"}, {relations, "relations"}} {
		if v.Len() == 0 {
			return fmt.Errorf("%s has no %s, but a model needs at least one", what, v.of)
		}
	}
	return nil
}

// SHA256 returns the SHA-256 of the concatenated parameter files, in hex. The files may be
// model.safetensors alone, or a table of entities followed by a table of relations. Call it before
// Close, and before Verify, which then covers its result.
func (c *Checkpoint) SHA256(ctx context.Context) (string, error) { return c.source.sha256(ctx) }

// Verify returns an error that names the file if another program has changed a parameter file since
// Open. Results computed while a file changed belong to no checkpoint. Call Verify after the last
// use of Model, and show or keep results only if it returns nil. It reads all parameters again.
// Replacing a file, as Replace does, is not a change: Model still uses the old file.
func (c *Checkpoint) Verify(ctx context.Context) error { return c.source.verify(ctx) }

// Close releases the memory of the parameters. Model must not be used afterwards. SHA256, Verify and Save
// return an error.
func (c *Checkpoint) Close() error { return c.source.Close() }
