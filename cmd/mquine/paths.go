package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/compressed"
	"github.com/mquine/mquine/kg"
)

// Annotations of flags that name files, and of commands. A command's annotations say what the
// arguments name and which data sets the command reads.
const (
	outputFlag     = "mquine-output"
	inputFlag      = "mquine-input"
	checkpointArgs = "mquine-checkpoint-arguments"
	dataArgs       = "mquine-data-arguments"
	fileArgs       = "mquine-file-arguments"  // the arguments name files and folders to read
	allData        = "mquine-all-data"        // the command reads all installed data sets
	labelArgs      = "mquine-label-arguments" // arguments are labels, which may begin with a dash
)

const forceFlag = "force"

// addOutput adds a flag that names a file to write in a format, and --force. "-" is standard output.
func addOutput(cmd *cobra.Command, file *string, flag string, f format, usage string) {
	flags := cmd.Flags()
	flags.StringVar(file, flag, *file, usage)
	must(flags.SetAnnotation(flag, outputFlag, []string{string(f)}))
	if flags.Lookup(forceFlag) == nil {
		flags.Bool(forceFlag, false,
			"replace output files even if they are read-only or look like part of a checkpoint, run or data set")
	}
}

// markInput marks a flag whose value names a file or folder that the command reads.
func markInput(cmd *cobra.Command, flag string) {
	must(cmd.Flags().SetAnnotation(flag, inputFlag, nil))
}

// output is a file to write, the flag that names it, and its format.
type output struct {
	flag, path string
	format     format
}

// outputs returns the output files that the flags name. A path may be "-".
func outputs(cmd *cobra.Command) []output {
	var files []output
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if formats, ok := f.Annotations[outputFlag]; ok && f.Value.String() != "" {
			files = append(files, output{f.Name, f.Value.String(), format(formats[0])})
		}
	})
	return files
}

// checkPaths refuses paths that are wrong on any file system: an empty path, for example from an
// unset shell variable, standard input for a flag that does not read it, and the same path for two
// outputs.
func checkPaths(cmd *cobra.Command, args []string) error {
	empty, dash := "", ""
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if _, input := f.Annotations[inputFlag]; input && f.Value.String() == "-" && f.Name != "in" {
			dash = f.Name
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok { // the flag may be repeated
			values = list.GetSlice()
		} else if f.Value.Type() != "string" {
			return
		}
		if slices.Contains(values, "") {
			empty = f.Name
		}
	})
	if empty != "" {
		return fmt.Errorf("--%s has an empty value: give it a value, or leave it out", empty)
	}
	if dash != "" {
		return fmt.Errorf("--%s does not read standard input: give a path instead of -", dash)
	}
	// The commands for shell completion, such as __complete, accept empty arguments.
	if slices.Contains(args, "") && !strings.HasPrefix(cmd.Name(), "__") {
		return errors.New("an argument is empty: give it a value, or leave it out")
	}
	files := append(outputs(cmd), profileOutputs(cmd)...)
	for i, a := range files {
		if err := a.checkExtension(); err != nil {
			return err
		}
		for _, b := range files[:i] {
			switch {
			case a.path == "-" && b.path == "-":
				return fmt.Errorf("--%s and --%s both go to standard output: name a file for one of them",
					b.flag, a.flag)
			case sameOutput(a.path, b.path):
				return fmt.Errorf("--%s and --%s name the same file: choose two different files", b.flag, a.flag)
			}
		}
	}
	return nil
}

// format is the format of an output, in words.
type format string

// The formats of outputs. The name of a found file says whether it contains lines or Parquet.
const (
	htmlFormat  format = "an HTML page"
	jsonFormat  format = "JSON"
	linesFormat format = "tab-separated lines"
	svgFormat   format = "SVG"
	foundFormat format = "tab-separated lines or Parquet"
)

// extensions are the usual extensions of the formats. The first is for advice. The last list has the
// extensions of formats that mquine does not write.
var extensions = map[format][]string{
	htmlFormat:  {".html", ".htm"},
	jsonFormat:  {".json"},
	linesFormat: {".tsv", ".tab", ".txt"},
	svgFormat:   {".svg"},
	foundFormat: {parquetExtension},
	"": {
		".csv", ".jsonl", ".ndjson", ".md", ".tex", ".xls", ".xlsx", ".feather", ".arrow",
		".png", ".pdf", ".jpg", ".jpeg", ".gif", ".webp", ".eps", ".ps",
	},
}

// checkExtension refuses a name that says that the file has a different format from the one that mquine
// writes.
func (o output) checkExtension() error {
	extension := strings.ToLower(filepath.Ext(compressed.Trim(o.path)))
	for f, list := range extensions {
		switch {
		case !slices.Contains(list, extension) || f == o.format || o.format == "":
		case o.format != foundFormat:
			return fmt.Errorf("--%[1]s %s: --%[1]s writes %[3]s; choose a name that ends with %s", o.flag,
				o.path, o.format, extensions[o.format][0])
		case f != linesFormat:
			advice := ""
			if slices.Contains([]string{".csv", ".json", ".md", ".tex"}, extension) {
				advice = ", or write standard output to the file, with --format"
			}
			return fmt.Errorf("--%[1]s %s: --%[1]s writes %[3]s; choose a name that ends with .tsv or %s%s", o.flag,
				o.path, o.format, parquetExtension, advice)
		}
	}
	if extension == parquetExtension && compressed.Is(o.path) {
		return fmt.Errorf("--%s %s: Parquet compresses its columns; choose a name that ends with %s", o.flag, o.path,
			parquetExtension)
	}
	return nil
}

// checkNew returns an error if a folder to be created already exists. Checking early saves the user
// a wait.
func checkNew(dir string) error {
	if dir == "-" {
		return errors.New("a folder cannot go to standard output: name a new folder instead of -")
	}
	if _, err := os.Lstat(dir); err == nil {
		return &atomicfile.ExistsError{Path: dir}
	}
	return nil
}

// sameOutput reports whether two outputs go to the same file, pipe or device, which need not exist. The null
// device accepts several outputs.
func sameOutput(a, b string) bool {
	first, second := openedBy(a), openedBy(b)
	if first != nil && second != nil && os.SameFile(first, second) {
		null, err := os.Stat(os.DevNull)
		return err != nil || !os.SameFile(first, null)
	}
	return a == b || a != "-" && b != "-" && place(a) == place(b)
}

// openedBy returns the file to which the output at path goes if it exists, and otherwise nil.
func openedBy(path string) (info fs.FileInfo) {
	if path == "-" {
		info, _ = os.Stdout.Stat()
	} else {
		info, _ = os.Stat(path)
	}
	return info
}

// within reports whether an output is or will be dir, or a file in dir. Neither need exist.
func (o output) within(dir string) bool {
	for path, up := place(o.path), ""; path != up; path, up = filepath.Dir(path), path {
		if path == place(dir) || sameFile(path, dir) {
			return true
		}
	}
	return false
}

// place returns the absolute path, without symbolic links, at which a file is or will be.
func place(path string) string {
	target, _, err := atomicfile.Target(path)
	if err != nil {
		return path
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(target))
	if err != nil {
		return target
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return target
	}
	return filepath.Join(folder, filepath.Base(target))
}

func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// checkOutputs checks, before the work begins, that the output files can be written. It refuses to
// replace a file that the command reads. Without --force, it also refuses to replace a file that is
// read-only or looks like part of a checkpoint, run or data set.
func checkOutputs(cmd *cobra.Command, args []string) error {
	files := slices.DeleteFunc(outputs(cmd), func(o output) bool { return o.path == "-" })
	if len(files) == 0 {
		return nil
	}
	read := inputFiles(cmd, args)
	force, err := cmd.Flags().GetBool(forceFlag)
	if err != nil {
		return err
	}
	for _, o := range files {
		err := o.check(read, force)
		if errors.As(err, new(guardError)) {
			err = fmt.Errorf("%w, or add --%s to replace it", err, forceFlag)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// check is checkOutputs for one file. read lists the files that the command reads.
func (o output) check(read []string, force bool) error {
	target, inPlace, err := atomicfile.Target(o.path)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", o.path, err)
	}
	info, err := os.Stat(target)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("cannot write %s: it is a folder; name a file", o.path)
	case inPlace:
		return nil // opening a pipe or a device might block
	case err == nil:
		if i := slices.IndexFunc(read, func(path string) bool { return sameFile(target, path) }); i >= 0 {
			return fmt.Errorf("--%s %s would replace %s, which the command reads: choose another file",
				o.flag, o.path, read[i])
		}
		if !force {
			if err := o.guard(target, info); err != nil {
				return err
			}
		}
	}
	probe, err := atomicfile.Create(target)
	if err != nil {
		folder := filepath.Dir(target)
		if _, missing := os.Stat(folder); errors.Is(missing, fs.ErrNotExist) {
			err = fmt.Errorf("%w; create the folder %s first", err, folder)
		}
		return err
	}
	probe.Discard()
	return nil
}

// projectFiles matches the names of files in checkpoints, runs, searches and data sets that
// kg.IsDataFile does not know. TestProjectFiles fails if a format, a run or a search has others.
var projectFiles = regexp.MustCompile(`^(.*\.(safetensors|npy|pth?|pkl|ckpt|chkpnt|model|dict)|checkpoint|` +
	`(ent|rel)_id|(entity|relation)_to_id\.tsv\.gz|(config|split)\.json|(config|search|space|best)\.yaml|` +
	`(log|trials)\.jsonl|(loss|validation|trials)\.svg)$`)

// guardError says why replacing a file needs --force.
type guardError struct{ error }

// guard refuses to replace a file that is read-only or looks like part of a checkpoint, run or data
// set.
func (o output) guard(target string, info fs.FileInfo) error {
	if readOnly(target, info) {
		return guardError{fmt.Errorf("--%s %s is read-only: choose another file", o.flag, o.path)}
	}
	if name := filepath.Base(target); projectFiles.MatchString(name) || kg.IsDataFile(name) {
		return guardError{fmt.Errorf("--%s %s looks like part of a checkpoint, run or data set: choose another file",
			o.flag, o.path)}
	}
	return nil
}

// inputFiles returns the files that the command reads: the files that flags and arguments name, and
// the files in folders that they name.
func inputFiles(cmd *cobra.Command, args []string) []string {
	var named []string
	addData := func(dataset string) {
		if folder, err := kg.Folder(dataset); err == nil { // the command itself reports any error
			named = append(named, folder)
		}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch _, ok := f.Annotations[inputFlag]; {
		case !ok || f.Value.String() == "" || f.Value.String() == "-":
		case f.Value.String() == observedCandidates && strings.HasSuffix(f.Name, "candidates"): // not a file
		case f.Name == dataFlag:
			addData(f.Value.String())
		default:
			named = append(named, f.Value.String())
		}
	})
	for _, annotation := range []string{checkpointArgs, fileArgs} {
		if _, ok := cmd.Annotations[annotation]; ok {
			named = append(named, args...)
		}
	}
	if _, ok := cmd.Annotations[dataArgs]; ok {
		for _, dataset := range args {
			addData(dataset)
		}
	}
	if _, ok := cmd.Annotations[allData]; ok {
		installed, _ := kg.Installed() // the command itself reports any error
		for _, name := range installed {
			addData(name)
		}
	}
	var files []string
	for _, path := range named {
		const levels = 2 // bench/results contains a folder for each class of machine
		files = appendFiles(files, path, levels)
	}
	return files
}

// appendFiles appends the file at path, or the files in the folder at path, down to the given
// number of levels. It skips hidden files.
func appendFiles(files []string, path string, levels int) []string {
	entries, err := os.ReadDir(path)
	if err != nil {
		return append(files, path) // a file, or a path that does not exist
	}
	for _, e := range entries {
		inside := filepath.Join(path, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case !e.IsDir():
			files = append(files, inside)
		case levels > 1:
			files = appendFiles(files, inside, levels-1)
		}
	}
	return files
}
