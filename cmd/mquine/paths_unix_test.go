//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model/checkpoint/formats"
)

// commandsWithFiles returns commands that write files and a table.
func commandsWithFiles(w workplace) map[string][]string {
	json, tsv, svg := w.path("out.json"), w.path("out.tsv"), w.path("out.svg")
	triple := strings.Split(strings.SplitN(string(must1(os.ReadFile(filepath.Join(w.data, "test.txt")))), "\n", 2)[0],
		"\t")
	return map[string][]string{
		"eval": {"eval", w.model, "--data", w.data, "--by", "relation,degree", "--json", json,
			"--ranks", tsv},
		"compare": {"compare", w.model, w.model, "--data", w.data, "--json", json},
		"z stats": {"z", "stats", "--data", w.data, "--json", json, "--tsv", tsv, "--plot", svg},
		"z show": {"z", "show", "--data", w.data, "--head", triple[0], "--relation", triple[1], "--tail",
			triple[2], "--json", json},
		"data info": {"data", "info", w.data, "--json", json},
		"score":     {"score", w.model, "--in", filepath.Join(w.data, "train.txt"), "--json", json},
		"data list": {"data", "list", "--json", json},
		"info":      {"info", w.model, "--json", json},
	}
}

// requireOutputs checks that the files of a command exist and are complete, and removes them.
func requireOutputs(t *testing.T, args []string) {
	t.Helper()
	for i, flag := range args {
		switch flag {
		case "--json", "--ranks", "--tsv", "--plot":
			text, err := os.ReadFile(args[i+1])
			require.NoError(t, err, "%s of %v", flag, args)
			if flag == "--json" {
				require.True(t, json.Valid(text))
			}
			require.True(t, strings.HasSuffix(string(text), "\n"), "%s ends with a line", flag)
			require.NoError(t, os.Remove(args[i+1]))
		}
	}
}

// closedPipe returns the write end of a pipe without a reader.
func closedPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	t.Cleanup(func() { w.Close() })
	return w
}

// If the reader of the table is gone, as after "| head -1", the files are still written.
func TestFilesOutliveTheTable(t *testing.T) {
	w := newWorkplace(t)
	for name, args := range commandsWithFiles(w) {
		for _, gone := range []string{"stdout", "stdout and stderr"} {
			t.Run(name+", "+gone, func(t *testing.T) {
				var stderr strings.Builder
				cmd := command(t, args...)
				cmd.Stdout, cmd.Stderr = closedPipe(t), &stderr
				if gone != "stdout" {
					cmd.Stderr = closedPipe(t)
				}
				err := cmd.Run()
				require.IsType(t, &exec.ExitError{}, err)
				assert.Equal(t, exitPipe, cmd.ProcessState.ExitCode(), stderr.String())
				assert.NotContains(t, stderr.String(), "broken pipe", "no message after | head")
				requireOutputs(t, args)
			})
		}
		t.Run(name+", full device", func(t *testing.T) {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Skip("this system has no /dev/full")
			}
			defer full.Close()
			var stderr strings.Builder
			cmd := command(t, args...)
			cmd.Stdout, cmd.Stderr = full, &stderr
			require.Error(t, cmd.Run())
			outcome{status: cmd.ProcessState.ExitCode(), stderr: stderr.String()}.requireSentence(t, exitFailed,
				": cannot write standard output: no space left on device")
			requireOutputs(t, args)
		})
	}
}

// Standard output has the same exit status by another name, and other pipes have a sentence.
func TestClosedPipeByName(t *testing.T) {
	w := newWorkplace(t)
	if _, err := os.Stat("/dev/fd"); err != nil {
		t.Skip("this system has no /dev/fd")
	}
	discover := func(out string) (outcome, error) {
		var stderr strings.Builder
		cmd := command(t, "discover", w.model, "--data", w.data, "--out", out)
		cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = closedPipe(t), &stderr, []*os.File{closedPipe(t)}
		err := cmd.Run()
		return outcome{status: cmd.ProcessState.ExitCode(), stderr: stderr.String()}, err
	}
	for _, out := range []string{"/dev/stdout", "/dev/fd/1"} {
		o, err := discover(out)
		require.Error(t, err)
		assert.Equal(t, exitPipe, o.status, out)
		assert.NotContains(t, o.stderr, "broken pipe", out)
	}
	o, err := discover("/dev/fd/3")
	require.Error(t, err)
	o.requireSentence(t, exitFailed, "cannot write /dev/fd/3: broken pipe")
}

// A closed standard error does not end a training run.
func TestTrainingOutlivesItsLog(t *testing.T) {
	data, dir := smallFamilies(t), filepath.Join(t.TempDir(), "run")
	cmd := command(t, "train", "--data", data, "--out", dir, "--dim", "6", "--epochs", "3")
	cmd.Stderr = closedPipe(t)
	out, err := cmd.Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), "all 3 epochs are done")
	requireFiles(t, dir, trainingFiles...)
}

// Every flag that names a FILE is marked as an input or an output, so checkOutputs knows it.
func TestEveryFileIsInputOrOutput(t *testing.T) {
	marked := 0
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if placeholder, _ := pflag.UnquoteUsage(f); placeholder != "FILE" {
				return
			}
			_, input := f.Annotations[inputFlag]
			_, output := f.Annotations[outputFlag]
			assert.True(t, input != output, "%s --%s: call markInput or addOutput", cmd.CommandPath(), f.Name)
			marked++
		})
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(newRootCommand(time.Now()))
	assert.Greater(t, marked, 30)
}

func TestOutputsNeverReplaceInputs(t *testing.T) {
	here := must1(os.Getwd())
	w := newWorkplace(t)
	parameters, split := filepath.Join(w.model, "model.safetensors"), filepath.Join(w.data, "train.txt")
	link, hard, folder := w.path("link"), w.path("hard"), w.path("folder")
	require.NoError(t, os.Symlink(parameters, link))
	require.NoError(t, os.Link(parameters, hard))
	require.NoError(t, os.Symlink(w.model, folder))
	t.Setenv("MQUINE_DATA", w.path("data"))
	require.NoError(t, os.CopyFS(w.path("data", "families"), os.DirFS(w.data)))
	listed := w.path("data", "families", "train.txt")
	result := w.path("results", "class", "result.txt")
	require.NoError(t, os.MkdirAll(filepath.Dir(result), 0o755))
	require.NoError(t, os.WriteFile(result, []byte("goos: linux\n"), 0o644))
	list, space, profile := w.path("list"), w.path("space"), w.path("cpu.pprof")
	for _, path := range []string{list, space, profile} {
		require.NoError(t, os.WriteFile(path, []byte("mine\n"), 0o644))
	}
	before := map[string]string{}
	entities := filepath.Join(w.model, "entities.tsv")
	for _, path := range []string{parameters, split, listed, result, list, space, profile, entities} {
		before[path] = string(must1(os.ReadFile(path)))
	}
	// A link has no extension that would tell another format.
	linked := func(path string) string {
		name := filepath.Join(t.TempDir(), "link")
		require.NoError(t, os.Symlink(path, name))
		return name
	}
	eval := []string{"eval", w.model, "--data", w.data}
	for _, args := range [][]string{
		append(eval, "--json", parameters),
		append(eval, "--json", link),
		append(eval, "--json", hard),
		append(eval, "--json", filepath.Join(folder, "model.safetensors"), "--force"),
		append(eval, "--ranks", split),
		append(eval, "--ranks", filepath.Join(w.model, "entities.tsv")),
		{"compare", w.model, w.model, "--data", w.data, "--json", parameters},
		{"info", w.model, "--json", parameters},
		{"data", "info", w.data, "--json", linked(split)},
		{"z", "stats", "--data", w.data, "--tsv", split, "--force"},
		{"data", "list", "--json", linked(listed), "--force"},
		{"bench", "report", "--results", w.path("results"), "--out", linked(result), "--force"},
		{"predict", w.model, "--data", w.data, "--in", list, "--json", list},
		append(eval, "--candidates", list, "--skip-excluded", "--ranks", list),
		append(eval, "--tail-candidates", list, "--json", list),
		append(eval, "--head-candidates", list, "--json", list),
		{"discover", w.model, "--data", w.data, "--candidates", list, "--out", list},
		{"tune", "--data", w.data, "--space", space, "--budget", "1s", "--json", space},
		{"predict", w.model, "--data", w.data, "--in", profile, "--profile", "cpu", "--profile-dir", w.dir},
		{"data", "split", profile, "--out", w.path("new"), "--profile", "cpu", "--profile-dir", folder + "/.."},
	} {
		mquine(t, args...).requireSentence(t, exitFailed, ", which the command reads: choose another file")
		for path, text := range before {
			require.Equal(t, text, string(must1(os.ReadFile(path))), "%v", args)
		}
	}

	// The word observed is not a file.
	t.Chdir(w.dir)
	require.NoError(t, os.WriteFile("observed", []byte("mine\n"), 0o644))
	succeed(t, append(eval, "--candidates", "observed", "--skip-excluded", "--json", "observed")...)
	t.Chdir(here)

	// If the command does not read a file of a run or checkpoint, it may replace the file, but only
	// with --force.
	config := w.path("config.yaml")
	require.NoError(t, os.WriteFile(config, []byte("mine"), 0o644))
	for _, args := range [][]string{
		append(eval, "--json", config),
		{"bench", "report", "--results", "../../bench/results", "--out", parameters},
	} {
		mquine(t, args...).requireSentence(t, exitFailed,
			"looks like part of a checkpoint, run or data set: choose another file, or add --force to replace it")
	}
	assert.Equal(t, "mine", string(must1(os.ReadFile(config))))
	assert.Equal(t, before[parameters], string(must1(os.ReadFile(parameters))))
	succeed(t, append(eval, "--json", config, "--force")...)
	assert.True(t, json.Valid(must1(os.ReadFile(config))))
}

// Replacing a file that a format of checkpoints, a data set, a run or a search has needs --force.
func TestProjectFiles(t *testing.T) {
	names := []string{ // one of each kind
		"train.txt.gz", "valid.nt", "test.txt.zst", "train2id.txt", "train.del", "entities.dict", "relations.txt",
		"entity2id.txt", "relation_ids.del", "valid_negatives.txt", "test_negatives.txt.gz", "labels.tsv", "split.json",
		"entity_to_id.tsv.gz",
	}
	braces := regexp.MustCompile(`\{(\w+),(\w+)\}`)
	for _, f := range formats.All {
		for _, part := range regexp.MustCompile(`, | or `).Split(f.Files, -1) {
			name, _, _ := strings.Cut(strings.ReplaceAll(part, "*", "x"), " ")
			if !strings.HasSuffix(name, "/") && name != "ModE" { // neither a folder nor a model
				names = append(names, braces.ReplaceAllString(name, "$1"), braces.ReplaceAllString(name, "$2"))
			}
		}
	}
	data, dir := smallFamilies(t), t.TempDir()
	search := filepath.Join(dir, "search")
	succeed(t, "tune", "--data", data, "--space", spaceFile(t, smallSpace), "--trials", "1", "--rungs", "1",
		"--out", search)
	npy := filepath.Join(dir, "npy")
	succeed(t, "export", filepath.Join(search, "trial-001", "best"), "--to", "npy", npy)
	for _, folder := range []string{data, search, npy} {
		require.NoError(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if !d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
				names = append(names, d.Name())
			}
			return err
		}))
	}
	assert.Subset(t, names, []string{"best_valid.model", "checkpoint", "rel_id", "x_relation.npy", "state_dict.pt",
		"trained_model.pkl", "model_best.pt", "checkpoint_best.pt", "xtuckerx.pt", "xconvex.model", "x.chkpnt",
		"x.ckpt", "loss.svg", "validation.svg", "trials.svg", "state.safetensors", "config.yaml"})
	check := func(name string) error {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		return output{flag: "json", path: path}.check(nil, false)
	}
	for _, name := range names {
		assert.ErrorAs(t, check(name), new(guardError), name)
	}
	for _, name := range []string{"out.json", "ranks.tsv", "plot.svg", "answers.txt", "entities.json", "train.tsv"} {
		assert.NoError(t, check(name))
	}
}

func TestOutputsToOneFile(t *testing.T) {
	w := newWorkplace(t)
	there, link, folder := w.path("there"), w.path("link"), w.path("folder")
	require.NoError(t, os.WriteFile(there, nil, 0o644))
	require.NoError(t, os.Symlink("there", link))
	require.NoError(t, os.Link(there, w.path("hard")))
	require.NoError(t, os.Symlink(w.dir, folder))
	t.Chdir(w.dir)
	for _, pair := range [][2]string{
		{there, "there"}, {there, "./there"}, {"new", filepath.Join(w.dir, "new")}, {"new", "folder/new"}, {link,
			there}, {"hard", "there"},
	} {
		mquine(t, "eval", w.model, "--data", w.data, "--json", pair[0], "--ranks", pair[1]).
			requireSentence(t, exitUsage, "--json and --ranks name the same file")
	}
	mquine(t, "eval", w.model, "--data", w.data, "--json", "-", "--ranks", "-").
		requireSentence(t, exitUsage, "--json and --ranks both go to standard output: name a file for one of them")
	mquine(t, "eval", w.model, "--data", w.data, "--json", "folder/cpu.pprof", "--profile", "cpu").
		requireSentence(t, exitUsage, "--json and --profile-dir name the same file: choose two different files")
	mquine(t, "z", "stats", "--data", w.data, "--tsv", "new", "--plot", "./new").
		requireSentence(t, exitUsage, "--tsv and --plot name the same file")
}

// A folder is not written to standard output.
func TestFolderToStandardOutput(t *testing.T) {
	w := newWorkplace(t)
	t.Chdir(w.dir)
	mquine(t, "export", w.model, "--to", "npy", "-").
		requireSentence(t, exitFailed, "a folder cannot go to standard output: name a new folder instead of -")
	assert.NoDirExists(t, "-")
}

// A read-only file is not replaced without --force, even if root or the owner of the folder could
// replace it.
func TestReadOnlyOutput(t *testing.T) {
	w := newWorkplace(t)
	path := w.path("o.json")
	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o444))
	args := []string{"z", "stats", "--data", w.data, "--json", path}
	mquine(t, args...).requireSentence(t, exitFailed,
		"--json "+path+" is read-only: choose another file, or add --force to replace it")
	assert.Equal(t, "mine", string(must1(os.ReadFile(path))))
	succeed(t, append(args, "--force")...)
	assert.True(t, json.Valid(must1(os.ReadFile(path))))
	assert.Equal(t, os.FileMode(0o444), must1(os.Stat(path)).Mode())
}

// An empty path, for example from an unset shell variable, is a usage error.
func TestEmptyPaths(t *testing.T) {
	w := newWorkplace(t)
	t.Chdir(w.dir)
	for _, args := range [][]string{
		{"eval", w.model, "--data", w.data, "--json", ""},
		{"eval", w.model, "--data", w.data, "--ranks="},
		{"eval", "--checkpoint", "", "--data", w.data},
		{"train", "--data", w.data, "--out", ""},
		{"train", "--data", w.data, "--config", ""},
		{"train", "--resume", ""},
		{"tune", "--resume", ""},
		{"demo", "--keep", ""},
		{"z", "stats", "--data", w.data, "--plot", ""},
		{"data", "make", "families", "--out", ""},
		{"bench", "report", "--out", ""},
		{"compare", w.model, w.model, "--data", w.data, "--profile", "cpu", "--profile-dir", ""},
	} {
		mquine(t, args...).requireSentence(t, exitUsage, "has an empty value: give it a value, or leave it out")
	}
	for _, args := range [][]string{{"info", ""}, {"compare", w.model, "", "--data", w.data},
		{"import", "--from", "rotate", w.model, ""}} {
		mquine(t, args...).requireSentence(t, exitUsage,
			"an argument is empty: give it a value, or leave it out")
	}
	requireFiles(t, w.dir, "families", "checkpoint")
}

// Closing the terminal ends the work as SIGTERM does, except under nohup. SIGINT does not end work that a
// shell script has started in the background.
func TestHangUp(t *testing.T) {
	data := smallFamilies(t)
	t.Run("train", func(t *testing.T) {
		dir := t.TempDir()
		cmd := command(t, "train", "--data", data, "--out", filepath.Join(dir, "run"), "--dim", "8", "--epochs",
			"1000000", "--valid-every", "0")
		o := interrupt(t, cmd, "epoch 1/", syscall.SIGHUP)
		assert.Equal(t, exitInterrupted, o.status, o.stderr)
		requireFiles(t, dir, "run")
		requireFiles(t, filepath.Join(dir, "run"), "config.yaml", "log.jsonl", "state.safetensors", "last", "loss.svg")
	})
	for name, ignored := range map[string]syscall.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT} {
		t.Run("ignored "+name, func(t *testing.T) {
			self, err := os.Executable()
			require.NoError(t, err)
			dir := filepath.Join(t.TempDir(), "run")
			cmd := exec.Command("sh", "-c", `trap "" `+name+`; exec "$@"`, "sh", self,
				"train", "--data", data, "--out", dir, "--dim", "8", "--epochs", "1000000")
			cmd.Env = append(os.Environ(), asCommand+"=1")
			pipe, err := cmd.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			lines := bufio.NewScanner(pipe)
			for lines.Scan() && !strings.HasPrefix(lines.Text(), "epoch 1/") {
			}
			require.NoError(t, cmd.Process.Signal(ignored))
			for range 20 {
				require.True(t, lines.Scan(), "the training must continue")
			}
			require.NoError(t, cmd.Process.Kill())
			_, _ = io.Copy(io.Discard, pipe)
			_ = cmd.Wait()
		})
	}
}

// A command removes what killed commands left behind in the folder that it writes to.
func TestLitterIsSwept(t *testing.T) {
	w := newWorkplace(t)
	cmd := command(t, "init", "--model", "mquine", "--dim", "500", "--data", w.data, "--out", w.path("big"))
	require.NoError(t, cmd.Start())
	for { // wait until the command has begun to write the folder
		entries := must1(os.ReadDir(w.dir))
		if len(entries) > 2 {
			break
		}
		require.Nil(t, cmd.ProcessState)
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	entries := must1(os.ReadDir(w.dir))
	require.Len(t, entries, 3)
	require.Regexp(t, `^\.big\.[0-9a-f]{16}\.mquine-tmp$`, entries[0].Name())
	require.NoError(t, os.WriteFile(w.path(".mine"), nil, 0o644))

	succeed(t, "z", "stats", "--data", w.data, "--json", w.path("z.json"))
	requireFiles(t, w.dir, "families", "checkpoint", "z.json", ".mine")
}

// If an output is the path of an open descriptor, such as /dev/stdout, the command appends to the
// open file, and then prints the table. Two outputs to one file or pipe are refused.
func TestOutputToDescriptors(t *testing.T) {
	w := newWorkplace(t)
	for _, device := range []string{"/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"} {
		for _, kind := range []string{"file", "pipe"} {
			cmd := command(t, "z", "stats", "--data", w.data, "--json", device)
			var text []byte
			if kind == "pipe" {
				out, err := cmd.Output()
				require.NoError(t, err)
				text = out
			} else {
				file, err := os.OpenFile(w.path("out"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
				require.NoError(t, err)
				_, err = file.WriteString("before\n")
				require.NoError(t, err)
				cmd.Stdout = file
				require.NoError(t, cmd.Run())
				require.NoError(t, file.Close())
				text = must1(os.ReadFile(w.path("out")))
				require.True(t, strings.HasPrefix(string(text), "before\n{"), device)
			}
			assert.Contains(t, string(text), `"mquine.z-stats/1"`, "%s, %s", device, kind)
			assert.Contains(t, string(text), "The largest n_Z is", "%s, %s", device, kind)
		}
	}
	succeed(t, "z", "stats", "--data", w.data, "--json", "/dev/null", "--tsv", "/dev/null")

	require.NoError(t, syscall.Mkfifo(w.path("pipe"), 0o644))
	for _, pair := range [][2]string{
		{"-", "/dev/stdout"}, {"/dev/stdout", "-"}, {"/dev/stdout", "/proc/self/fd/1"}, {"-", w.path("out")},
		{w.path("pipe"), w.path("pipe")},
	} {
		cmd := command(t, "z", "stats", "--data", w.data, "--json", pair[0], "--tsv", pair[1])
		file, err := os.Create(w.path("out"))
		require.NoError(t, err)
		var stderr strings.Builder
		cmd.Stdout, cmd.Stderr = file, &stderr
		require.Error(t, cmd.Run(), pair)
		outcome{status: cmd.ProcessState.ExitCode(), stderr: stderr.String()}.
			requireSentence(t, exitUsage, "--json and --tsv name the same file: choose two different files")
		require.NoError(t, file.Close())
		assert.Empty(t, must1(os.ReadFile(w.path("out"))), pair)
	}
}

// An error about a file is reported even if the reader of the table is gone.
func TestFailedFileAndBrokenPipe(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	w := newWorkplace(t)
	var stderr strings.Builder
	cmd := command(t, "z", "stats", "--data", w.data, "--json", "/dev/full")
	cmd.Stdout, cmd.Stderr = closedPipe(t), &stderr
	require.Error(t, cmd.Run())
	outcome{status: cmd.ProcessState.ExitCode(), stderr: stderr.String()}.
		requireSentence(t, exitFailed, "cannot write /dev/full: no space left on device")
}
