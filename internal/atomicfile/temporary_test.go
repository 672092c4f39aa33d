package atomicfile

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// childFolder names an environment variable that contains a folder. If it is set, the test binary
// begins a file and a folder in that folder and waits.
const childFolder = "MQUINE_ATOMICFILE_CHILD"

func TestMain(m *testing.M) {
	dir := os.Getenv(childFolder)
	if dir == "" {
		os.Exit(m.Run())
	}
	file, err := Create(filepath.Join(dir, "file"))
	if err != nil {
		panic(err)
	}
	temporary, err := TemporaryFolder(dir, "folder")
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(temporary.Path, "half"), nil, 0o600); err != nil {
		panic(err)
	}
	fmt.Fprintln(file, "half")
	fmt.Println("ready")
	time.Sleep(time.Hour)
}

// A long name is cut between two characters.
func TestTemporaryPathOfLongNames(t *testing.T) {
	for _, name := range []string{"é", "日本", "🙂", "x"} {
		for before := range 4 {
			base := strings.Repeat("x", before) + strings.Repeat(name, 300)
			path := temporaryPath(filepath.Join("dir", base))
			short := filepath.Base(path)
			assert.Equal(t, "dir", filepath.Dir(path))
			assert.Regexp(t, temporaryName, short)
			assert.True(t, utf8.ValidString(short), short)
			assert.Greater(t, len(short), maxBase)
			assert.Less(t, len(short), 255)
		}
	}
	assert.Regexp(t, temporaryName, temporaryPath(strings.Repeat("\x80", 300)), "a name that is not UTF-8")
}

func TestSweepAfterKill(t *testing.T) {
	dir := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childFolder+"="+dir)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)

	Sweep(dir)
	require.Len(t, namesIn(t, dir), 2, "the child is alive")
	require.NoError(t, Write(filepath.Join(dir, "other"), writeText("x")))
	require.Len(t, namesIn(t, dir), 3)

	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	require.NoError(t, Write(filepath.Join(dir, "other"), writeText("y")))
	assert.Equal(t, []string{"other"}, namesIn(t, dir), "the next writer removes the files that the killed writer left")
}

// Writers that sweep the same folder concurrently do not remove each other's files.
func TestConcurrentWriters(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 50 {
				assert.NoError(t, Write(filepath.Join(dir, strconv.Itoa(w)), writeText(strconv.Itoa(i))))
				assert.NoError(t, Folder(filepath.Join(dir, fmt.Sprintf("folder-%d-%d", w, i)),
					func(string) error { return nil }))
			}
		})
	}
	all.Wait()
	assert.Len(t, namesIn(t, dir), 4+200)
	for w := range 4 {
		assert.Equal(t, "49", contents(t, filepath.Join(dir, strconv.Itoa(w))))
	}
}
