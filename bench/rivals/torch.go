package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mquine/mquine/rank"

	_ "embed"
)

//go:embed torch_eval.py
var torchProgram []byte

// torch is a process that runs a Python program. The program keeps the model and times itself.
type torch struct {
	program string
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	errors  *bytes.Buffer
	folder  string
	started struct {
		Torch, BLAS string
		Batch       int
		Chunk       *int
		Features    float64
	}
}

// newTorch starts torch_eval.py. It returns after the program has loaded the model and tried the
// batch sizes.
func newTorch(ctx context.Context, j *job, python string, unique bool) (*torch, error) {
	return startTorch(ctx, python, "torch_eval.py", torchProgram, func(string) ([]string, error) {
		args := []string{j.checkpoint.Path, j.graph.Dir, "--serve", "--threads", strconv.Itoa(j.threads)}
		if unique {
			args = append(args, "--unique")
		}
		return args, nil
	})
}

// startTorch writes a program to a new folder, starts it and reads its first answer. prepare may
// add files to the folder and returns the program's arguments.
func startTorch(
	ctx context.Context, python, name string, text []byte, prepare func(folder string) ([]string, error),
) (_ *torch, err error) {
	if python, err = findTorch(ctx, python); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "rivals-*")
	if err != nil {
		return nil, err
	}
	t := &torch{program: name, folder: folder, errors: new(bytes.Buffer)}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, text, 0o666); err != nil {
		return nil, err
	}
	args, err := prepare(folder)
	if err != nil {
		return nil, err
	}
	t.cmd = exec.CommandContext(ctx, python, append([]string{path}, args...)...)
	t.cmd.Stderr = t.errors
	if t.in, err = t.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.out = bufio.NewReader(out)
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	return t, t.read(&t.started)
}

// ask sends a request and reads the answer.
func (t *torch) ask(request, answer any) error {
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := t.in.Write(append(line, '\n')); err != nil {
		return errors.Join(err, t.read(new(any)))
	}
	return t.read(answer)
}

// findTorch returns a Python interpreter that has torch: the given one if it is set, otherwise
// python3 in the path or Debian's.
func findTorch(ctx context.Context, python string) (string, error) {
	tries := []string{python}
	if python == "" {
		tries = []string{"python3", "/usr/bin/python3"}
	}
	for _, p := range tries {
		if exec.CommandContext(ctx, p, "-c", "import torch").Run() == nil {
			return p, nil
		}
	}
	const install = "python3-torch and libopenblas0-pthread, or set --python to an interpreter that has PyTorch"
	return "", missing("PyTorch", install)
}

// read reads an answer.
func (t *torch) read(answer any) error {
	line, err := t.out.ReadBytes('\n')
	if err != nil {
		_ = t.cmd.Wait() // wait until standard error is complete
		lines := strings.Split(strings.TrimSpace(t.errors.String()), "\n")
		return fmt.Errorf("%s: %s", t.program, lines[len(lines)-1])
	}
	return json.Unmarshal(line, answer)
}

func (t *torch) about() string {
	s := fmt.Sprintf("torch %s with %s, batches of %d queries", t.started.Torch, t.started.BLAS, t.started.Batch)
	switch c := t.started.Chunk; {
	case c == nil:
	case *c == 0:
		s += ", torch.cdist"
	default:
		s += fmt.Sprintf(", %d differences at a time", *c)
	}
	return s
}

func (t *torch) rank(_ context.Context, limit int) (*outcome, error) {
	path := filepath.Join(t.folder, "ranks")
	var answer struct {
		Queries        int
		Seconds, Cores float64
	}
	if err := t.ask(map[string]any{"limit": limit, "ranks": path}, &answer); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	const each = 1 + 2*int(rank.NumFilters)
	if len(raw) != 4*each*answer.Queries {
		return nil, fmt.Errorf("torch_eval.py: %d bytes of ranks for %d queries", len(raw), answer.Queries)
	}
	o := &outcome{elapsed: time.Duration(answer.Seconds * 1e9), cores: answer.Cores}
	values := make([]int32, each*answer.Queries)
	if _, err := binary.Decode(raw, binary.LittleEndian, values); err != nil {
		return nil, err
	}
	for v := range slices.Chunk(values, each) {
		c := count{place: v[0]}
		for f := range rank.NumFilters {
			c.better[f], c.equal[f] = v[1+2*f], v[2+2*f]
		}
		o.counts = append(o.counts, c)
	}
	return o, nil
}

// close ends the process.
func (t *torch) close() {
	if t.cmd != nil && t.cmd.Process != nil {
		t.in.Close() // the program exits at the end of its input
		_ = t.cmd.Wait()
	}
	os.RemoveAll(t.folder)
}
