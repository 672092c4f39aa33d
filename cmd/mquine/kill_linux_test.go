package main

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// longKills is the name of the environment variable that sets the number of kills. The default is
// 50.
const longKills = "MQUINE_KILLS"

// victim is a command that is killed and then run to its end.
type victim struct {
	name string
	args []string // writes only to the working folder
	// folder, if not empty, is a folder that the command creates in several steps. again holds the
	// arguments that continue the work once the folder exists.
	folder string
	again  []string
	// prepare, if not nil, fills the working folder first.
	prepare func(t *testing.T, dir string)
	// results lists the files and folders in the working folder that must have the same bytes in
	// the end.
	results []string
}

// A command that is killed at a system call that the variable calls lists leaves no half-written
// file under a final name. One more run gives the same bytes as an undisturbed run, and leaves no
// temporary files.
func TestKilledAtSystemCalls(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed: apt-get install strace")
	}
	if err := exec.Command(strace, "-f", "-qq", "-o", os.DevNull, "true").Run(); err != nil {
		t.Skipf("strace cannot trace here: %v", err)
	}
	kills := 50
	if n, err := strconv.Atoi(os.Getenv(longKills)); err == nil {
		kills = n
	}
	victims := newVictims(t)
	for i, v := range victims {
		t.Run(v.name, func(t *testing.T) {
			share := kills/len(victims) + 1
			rng := rand.New(rand.NewPCG(uint64(kills), uint64(i)))
			v.kill(t, strace, share, rng)
		})
	}
}

func newVictims(t *testing.T) []victim {
	w := newWorkplace(t)
	space := spaceFile(t, "dim: 4\nepochs: 2\nlearning_rate: {min: 1e-3, max: 1e-1, scale: log}\n")
	trainArgs := []string{"train", "--data", w.data, "--dim", "6", "--batch", "64", "--out", "run", "--epochs", "2"}
	models := []string{"run/last", "run/best", "run/config.yaml"}
	rotate, vocabulary := w.writeRotate(t, "RotatE", 4, true, false)
	victims := []victim{
		{name: "train", args: trainArgs, folder: "run", again: []string{"train", "--resume", "run"}, results: models},
		{
			name: "extend", args: []string{"train", "--resume", "run", "--epochs", "3"},
			folder: "run", again: []string{"train", "--resume", "run", "--epochs", "3"}, results: models,
			prepare: func(t *testing.T, dir string) { succeedIn(t, dir, trainArgs...) },
		},
		{
			name: "tune", args: []string{"tune", "--data", w.data, "--space", space, "--trials", "2", "--rungs", "2",
				"--out", "search"},
			folder: "search", again: []string{"tune", "--resume", "search"},
			results: []string{"search/best.yaml", "search/search.yaml", "search/trial-001/last",
				"search/trial-002/best"},
		},
		{name: "eval", args: []string{"eval", w.model, "--data", w.data, "--json", "o.json", "--ranks",
			"o.tsv"}, results: []string{"o.tsv"}},
		{name: "init", args: []string{"init", "--model", "mquine", "--dim", "8", "--data", w.data, "--out",
			"checkpoint"}, results: []string{"checkpoint"}},
		{
			name: "import", args: []string{"import", "--from", "rotate", rotate, "checkpoint", "--vocab",
				vocabulary}, results: []string{"checkpoint"},
		},
		{name: "data make", args: []string{"data", "make", "families", "--entities", "60", "--out", "graph"},
			results: []string{"graph"}},
		{name: "data import", args: []string{"data", "import", w.data, "--name", "mine"},
			results: []string{"data/mine"}},
		{name: "data split", args: []string{"data", "split", filepath.Join(w.data, "train.txt"), "--out", "graph"},
			results: []string{"graph"}},
	}
	if shared := os.Getenv("MQUINE_DATA"); shared != "" {
		victims = append(victims, victim{
			name: "data get", args: []string{"data", "get", "umls", "--from",
				filepath.Join(shared, "umls")}, results: []string{"data/umls"},
		})
	}
	return victims
}

// in returns the command with dir as its working folder and dir/data as MQUINE_DATA.
func in(t *testing.T, dir string, args ...string) *exec.Cmd {
	cmd := command(t, args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "MQUINE_DATA="+filepath.Join(dir, "data"))
	return cmd
}

func succeedIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	output, err := in(t, dir, args...).CombinedOutput()
	require.NoError(t, err, "%v: %s", args, output)
}

// calls lists the system calls at which commands are killed: calls that change the disk, and some
// others.
const calls = "openat,write,fsync,renameat,renameat2,mkdirat,unlinkat,flock,fchmod,close,newfstatat,getdents64"

func (v victim) workFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "data"), 0o755))
	if v.prepare != nil {
		v.prepare(t, dir)
	}
	return dir
}

func (v victim) kill(t *testing.T, strace string, kills int, rng *rand.Rand) {
	alone, trace := v.workFolder(t), filepath.Join(t.TempDir(), "trace")
	cmd := in(t, alone, v.args...)
	cmd.Args = append([]string{strace, "-f", "-qq", "-o", trace, "-e", "trace=" + calls, cmd.Path}, v.args...)
	cmd.Path = strace
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	want := v.read(t, alone)
	require.NotEmpty(t, want)
	made := regexp.MustCompile(`(?m)^\d+ +(\w+)\(`).FindAllStringSubmatch(string(must1(os.ReadFile(trace))), -1)
	require.NotEmpty(t, made)

	killed := 0
	for try := 0; killed < kills; try++ {
		require.Less(t, try, 20*kills, "the command was not killed often enough")
		// strace counts calls per thread. There are several threads, so most counts are small.
		call := made[rng.IntN(len(made))][1]
		total := 0
		for _, m := range made {
			if m[1] == call {
				total++
			}
		}
		at := 1 + rng.IntN(1+rng.IntN(total))
		if v.killOnce(t, strace, call, at, want) {
			killed++
		}
	}
}

// killOnce kills the command at the given occurrence of a system call, checks the files and runs
// the command to its end. It returns false if the command makes fewer calls.
func (v victim) killOnce(t *testing.T, strace, call string, at int, want map[string]string) bool {
	dir := v.workFolder(t)
	defer os.RemoveAll(dir)
	cmd := in(t, dir, v.args...)
	cmd.Args = append([]string{strace, "-f", "-qq", "-o", os.DevNull, "-e", "trace=" + call,
		"-e", "inject=" + call + ":signal=KILL:when=" + strconv.Itoa(at), cmd.Path}, v.args...)
	cmd.Path = strace
	output, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok && status.Signaled(), "%s", output)
	where := call + " " + strconv.Itoa(at)

	there := v.read(t, dir)
	again := v.args
	switch {
	case v.folder == "":
		for path, text := range there {
			assert.Equal(t, want[path], text, "%s, killed at %s: %s is half-written", v.name, where, path)
		}
		if len(there) == len(want) && v.name != "eval" {
			return true // killed after its last step: a second run would fail because the folder exists
		}
	case isFolder(filepath.Join(dir, v.folder)):
		again = v.again
	}
	output, err = in(t, dir, again...).CombinedOutput()
	require.NoError(t, err, "%s, killed at %s: %v: %s", v.name, where, again, output)
	assert.Equal(t, want, v.read(t, dir), "%s, killed at %s", v.name, where)
	requireNoLitter(t, dir, where)
	return true
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// read returns the contents of the results by path.
func (v victim) read(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, result := range v.results {
		err := filepath.WalkDir(filepath.Join(dir, result), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && d.IsDir() {
				return nil
			}
			require.NoError(t, err)
			name, err := filepath.Rel(dir, path)
			require.NoError(t, err)
			files[name] = string(must1(os.ReadFile(path)))
			return nil
		})
		require.NoError(t, err)
	}
	return files
}

func requireNoLitter(t *testing.T, dir, where string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		assert.False(t, strings.HasPrefix(d.Name(), "."), "a command killed at %[2]s left %[1]s behind", path, where)
		return nil
	}))
}
