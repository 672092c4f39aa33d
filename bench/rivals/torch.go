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

// torch is torch_eval.py in a process that keeps the model and times itself.
type torch struct {
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

// newTorch starts the process; it returns when the model is loaded and the sizes of batches are
// tried.
func newTorch(ctx context.Context, j *job, python string, unique bool) (_ *torch, err error) {
	if python, err = findTorch(ctx, python); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "rivals-*")
	if err != nil {
		return nil, err
	}
	t := &torch{folder: folder, errors: new(bytes.Buffer)}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	program := filepath.Join(folder, "torch_eval.py")
	if err := os.WriteFile(program, torchProgram, 0o666); err != nil {
		return nil, err
	}
	args := []string{program, j.checkpoint.Path, j.graph.Dir, "--serve", "--threads", strconv.Itoa(j.threads)}
	if unique {
		args = append(args, "--unique")
	}
	t.cmd = exec.CommandContext(ctx, python, args...)
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

// findTorch returns the interpreter that has torch: the one asked for, or Debian's, which need not be
// the first in the path.
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
	return "", missing("PyTorch", "python3-torch and libopenblas0-pthread, or name an interpreter that has it with --python")
}

// read reads an answer.
func (t *torch) read(answer any) error {
	line, err := t.out.ReadBytes('\n')
	if err != nil {
		_ = t.cmd.Wait() // for all of its messages
		lines := strings.Split(strings.TrimSpace(t.errors.String()), "\n")
		return fmt.Errorf("torch_eval.py: %s", lines[len(lines)-1])
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
	request, err := json.Marshal(map[string]any{"limit": limit, "ranks": path})
	if err != nil {
		return nil, err
	}
	if _, err := t.in.Write(append(request, '\n')); err != nil {
		return nil, errors.Join(err, t.read(new(any)))
	}
	var answer struct {
		Queries        int
		Seconds, Cores float64
	}
	if err := t.read(&answer); err != nil {
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
		t.in.Close() // it ends when there is nothing more to read
		_ = t.cmd.Wait()
	}
	os.RemoveAll(t.folder)
}
