package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/compressed"
)

// schemaDir is the folder of the JSON Schemas. It is absolute, because tests change the working folder.
var schemaDir = must1(filepath.Abs("../../docs/schemas"))

// These files in schemaDir do not describe an output with the field "schema".
const (
	commonSchema = "common.json"
	logSchema    = "log.json"    // a line of log.jsonl
	trialsSchema = "trials.json" // a line of trials.jsonl
)

// compiledSchemas returns the schemas by the names of their files. It compiles them once.
var compiledSchemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	files, err := filepath.Glob(filepath.Join(schemaDir, "*.json"))
	if err != nil {
		return nil, err
	}
	schemas, compiler := map[string]*jsonschema.Schema{}, jsonschema.NewCompiler()
	for _, file := range files {
		if schemas[filepath.Base(file)], err = compiler.Compile(file); err != nil {
			return nil, err
		}
	}
	return schemas, nil
})

// schemaFile returns the file of a schema with a name such as mquine.eval/2.
func schemaFile(name string) string {
	return strings.ReplaceAll(strings.TrimPrefix(name, "mquine."), "/", "-") + ".json"
}

// validate returns an error if a JSON document does not satisfy the schema in a file.
func validate(file string, document []byte) error {
	schemas, err := compiledSchemas()
	if err != nil {
		return err
	}
	schema := schemas[file]
	if schema == nil {
		return fmt.Errorf("docs/schemas has no file %s", file)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// checkJSON validates a text if it is a JSON object with the field "schema". Other texts pass, because
// a failed command may leave an incomplete or an unrelated one.
func checkJSON(t *testing.T, where string, text []byte, succeeded bool) {
	t.Helper()
	var object struct{ Schema string }
	if !bytes.HasPrefix(text, []byte("{")) {
		return
	}
	if err := json.Unmarshal(text, &object); err != nil {
		assert.False(t, succeeded, "%s: %v", where, err)
		return
	}
	if strings.HasPrefix(object.Schema, "mquine.") {
		assert.NoError(t, validate(schemaFile(object.Schema), text), where)
	}
}

// checkJSONFiles validates the JSON files that a command with the given arguments may have written.
func checkJSONFiles(t *testing.T, args []string, succeeded bool) {
	t.Helper()
	cmd, rest, err := newRootCommand(time.Now()).Find(args)
	if err != nil || cmd.ParseFlags(rest) != nil {
		return // the command did not run
	}
	var files []string
	for _, o := range outputs(cmd) {
		if o.format == jsonFormat {
			files = append(files, o.path)
		}
	}
	dir := "" // a new folder; the files in the folder of --resume may be damaged on purpose
	if f := cmd.Flags().Lookup("out"); f != nil && f.Value.String() != "" {
		dir = f.Value.String()
		files = append(files, filepath.Join(dir, "split.json"))
	}
	for _, path := range files {
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if text, err := compressed.ReadFile(context.Background(), path); err == nil {
			checkJSON(t, path, text, succeeded)
		}
	}
	if name := cmd.Name(); dir != "" && (name == "train" || name == "tune") {
		checkLines(t, dir, "log.jsonl", logSchema)
		checkLines(t, dir, "trial-*/log.jsonl", logSchema)
		checkLines(t, dir, "trials.jsonl", trialsSchema)
	}
}

// checkLines validates each line of the files in a folder whose paths match a pattern, unless a line is
// not JSON.
func checkLines(t *testing.T, dir, pattern, schema string) {
	t.Helper()
	folder := os.DirFS(dir)
	files, err := fs.Glob(folder, pattern)
	require.NoError(t, err)
	for _, file := range files {
		text, err := fs.ReadFile(folder, file)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(text) {
			if json.Valid(line) {
				assert.NoError(t, validate(schema, line), "%s of %s", file, dir)
			}
		}
	}
}

// otherNames lists names in the sources that have no schema in docs/schemas.
var otherNames = []string{
	"mquine.eval/1", "mquine.compare/1", // former versions, which are only read
	"mquine.discover-state/1", "mquine.discover-state/2", "mquine.discover-state/3", // private to discover
}

// schemaNames returns the names of schemas in the sources, such as mquine.eval/2.
func schemaNames(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	pattern := regexp.MustCompile(`"(mquine\.[a-z-]+/[0-9]+)"`)
	err := filepath.WalkDir(filepath.Join(schemaDir, "..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range pattern.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = true
		}
		return err
	})
	require.NoError(t, err)
	for _, name := range otherNames {
		require.True(t, found[name], name)
		delete(found, name)
	}
	return slices.Sorted(maps.Keys(found))
}

// Every output has a schema, and every schema belongs to an output.
func TestEveryOutputHasASchema(t *testing.T) {
	schemas, err := compiledSchemas()
	require.NoError(t, err)
	files := []string{commonSchema, logSchema, trialsSchema}
	for _, name := range schemaNames(t) {
		file := schemaFile(name)
		files = append(files, file)
		if assert.Contains(t, schemas, file, "the sources contain %s", name) {
			document := readSchema(t, file)
			require.NotEmpty(t, document.Properties, file)
			assert.Equal(t, "schema", document.Properties[0].name, file)
			assert.Equal(t, name, document.Properties[0].Const, file)
		}
	}
	assert.ElementsMatch(t, files, slices.Collect(maps.Keys(schemas)))
}

// Every field has a description, no object has other fields, and every required field is described.
func TestSchemasAreComplete(t *testing.T) {
	schemas, err := compiledSchemas()
	require.NoError(t, err)
	for file := range schemas {
		document := readSchema(t, file)
		p := &schemaPage{t: t, common: readSchema(t, commonSchema).Defs, local: document.Defs}
		assert.Equal(t, "https://json-schema.org/draft/2020-12/schema", document.Dialect, file)
		assert.NotEmpty(t, document.Title, file)
		if file != commonSchema {
			p.check(file, document.schema, true)
		}
		assert.NotEmpty(t, document.Description, file)
		for _, d := range document.Defs {
			// Other objects may extend a definition, and must then be closed.
			p.check(file+" "+d.name, &d.schema, false)
			assert.NotEmpty(t, d.Description, "%s: %s has no description", file, d.name)
		}
	}
}

// check checks a schema and the schemas in it.
func (p *schemaPage) check(where string, s *schema, closed bool) {
	t := p.t
	t.Helper()
	of := s
	if s.Ref != "" {
		_, of = p.resolve(s.Ref)
	}
	if closed && (s.Properties != nil || of.Properties != nil) {
		assert.True(t, s.isClosed() || of.isClosed(), "%s allows other fields", where)
	}
	for _, name := range s.Required {
		is := func(f property) bool { return f.name == name }
		assert.True(t, s.Ref != "" || slices.ContainsFunc(s.Properties, is), "%s requires the unknown %s", where, name)
	}
	for _, f := range slices.Concat(s.Properties, s.Patterns) {
		at := where + "." + f.name
		assert.NotEmpty(t, f.Description, "%s has no description", at)
		p.check(at, &f.schema, true)
	}
	if s.Items != nil {
		p.check(where+"[]", s.Items, true)
	}
	if v := s.values(); v != nil {
		assert.NotEmpty(t, v.Description, "the values of %s have no description", where)
		p.check(where+".*", v, true)
	}
}

// A field that no schema describes, a missing field and a value of the wrong type are errors.
func TestValidate(t *testing.T) {
	w := newWorkplace(t)
	text := succeed(t, "data", "info", w.data, "--format", "json").stdout
	require.NoError(t, validate("data-info-1.json", []byte(text)))
	for old, mutated := range map[string]string{
		`"distinct_triples"`: `"more": 1, "distinct_triples"`,
		`"loops"`:            `"circles"`,
		`"median": `:         `"median": "", "old": `,
		`"command"`:          `"commands"`,
		`"split": "train"`:   `"split": "training"`,
	} {
		require.Contains(t, text, old)
		assert.Error(t, validate("data-info-1.json", []byte(strings.ReplaceAll(text, old, mutated))), mutated)
	}
}
