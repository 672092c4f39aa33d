//go:build unix

package checkpoint

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model"
)

// meddling is a context that calls the function do when it is checked for the n-th time.
type meddling struct {
	context.Context
	n     int64
	looks *atomic.Int64
	do    func()
}

func (m meddling) Err() error {
	if m.looks.Add(1) == m.n {
		m.do()
	}
	return nil
}

// TestChangingFile changes a parameter file at every point at which Open, Inspect, SHA256 and Save
// check their context. Each must report the change, at once or when the checkpoint is verified.
func TestChangingFile(t *testing.T) {
	m := newTrained(t, model.Config{Model: "mquine", Dim: 16, Entities: 2000, Relations: 2}, counting())
	dir := filepath.Join(t.TempDir(), "ckpt")
	path := filepath.Join(dir, parametersName)
	require.NoError(t, m.save(dir))
	aligned, err := os.ReadFile(path)
	require.NoError(t, err)
	header := binary.LittleEndian.Uint64(aligned)
	shifted := binary.LittleEndian.AppendUint64(nil, header+1)
	shifted = slices.Concat(shifted, aligned[8:8+header], []byte{' '}, aligned[8+header:])
	t.Run("mapped", func(t *testing.T) { checkChangingFile(t, path, aligned) })
	t.Run("copied, not being aligned", func(t *testing.T) { checkChangingFile(t, path, shifted) })

	rotate := rotateSmall()
	path = filepath.Join(rotate.write(t), rotateEntities)
	size := binary.LittleEndian.Uint16(rotate.entity[8:])
	shifted = binary.LittleEndian.AppendUint16(slices.Clone(rotate.entity[:8]), size+1)
	shifted = slices.Concat(shifted, rotate.entity[10:10+size], []byte{' '}, rotate.entity[10+size:])
	t.Run("mapped table", func(t *testing.T) { checkChangingFile(t, path, rotate.entity) })
	t.Run("copied table", func(t *testing.T) { checkChangingFile(t, path, shifted) })
}

func checkChangingFile(t *testing.T, path string, contents []byte) {
	longAgo := time.Date(2020, 1, 2, 3, 4, 5, 6, time.UTC)
	dir := filepath.Dir(path)
	parent := filepath.Dir(dir)
	out := filepath.Join(parent, "out")
	changes := map[string]func(){
		"cut":                func() { require.NoError(t, os.Truncate(path, 0)) },
		"without last pages": func() { require.NoError(t, os.Truncate(path, int64(max(0, len(contents)-100_000)))) },
		"written": func() {
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = file.WriteAt(make([]byte, 32), int64(len(contents)-32))
			require.NoError(t, err)
			require.NoError(t, file.Close())
		},
	}
	for name, work := range map[string]func(context.Context) error{
		"Open": func(ctx context.Context) error {
			c, err := Open(ctx, dir)
			if err != nil {
				return err
			}
			defer c.Close()
			return c.Verify(t.Context())
		},
		"Inspect": func(ctx context.Context) error {
			_, err := Inspect(ctx, dir)
			return err
		},
		"SHA256": func(ctx context.Context) error {
			c, err := Open(t.Context(), dir)
			require.NoError(t, err)
			defer c.Close()
			if _, err := c.SHA256(ctx); err != nil {
				return err
			}
			return c.Verify(t.Context())
		},
		"Save": func(ctx context.Context) error {
			c, err := Open(t.Context(), dir)
			require.NoError(t, err)
			defer c.Close()
			before := files(t, parent)
			if err = c.Save(ctx, out, map[string]string{"dataset": "toy"}); err != nil {
				assert.Equal(t, before, files(t, parent), "nothing is left")
			}
			return err
		},
	} {
		for how, change := range changes {
			looks := int64(1)
			if name == "Open" || name == "Inspect" {
				looks = 2 // the first check precedes the opening of the file
			}
			for ; ; looks++ {
				require.NoError(t, os.RemoveAll(out))
				require.NoError(t, os.WriteFile(path, contents, 0o644))
				require.NoError(t, os.Chtimes(path, longAgo, longAgo))
				changed := false
				ctx := meddling{t.Context(), looks, new(atomic.Int64), func() { changed = true; change() }}
				err := work(ctx)
				if !changed {
					require.NoError(t, err)
					break
				}
				require.ErrorContains(t, err, path+" was changed while it was in use, so there are no results",
					"%s, %s, look %d", name, how, looks)
				require.NotContains(t, err.Error(), "\n")
			}
			assert.Greater(t, looks, int64(2), "%s, %s", name, how)
		}
	}
}

// TestFileThatKeepsChanging opens checkpoints while another goroutine truncates and writes their
// files at random moments. Open and Verify may return errors, but must not crash.
func TestFileThatKeepsChanging(t *testing.T) {
	mquine, rotate := filepath.Join(t.TempDir(), "ckpt"), rotateSmall().write(t)
	require.NoError(t, toy(t).save(mquine))
	for _, path := range []string{
		filepath.Join(mquine, parametersName), filepath.Join(rotate, rotateConfig),
		filepath.Join(rotate, rotateEntities), filepath.Join(rotate, rotateRelations),
	} {
		contents, err := os.ReadFile(path)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var writing sync.WaitGroup
		writing.Go(func() {
			for ctx.Err() == nil {
				assert.NoError(t, os.WriteFile(path, contents, 0o644))
			}
		})
		for range 300 {
			c, err := Open(t.Context(), filepath.Dir(path))
			if err != nil {
				require.NotContains(t, err.Error(), "\n")
				continue
			}
			if err := c.Verify(t.Context()); err != nil {
				require.ErrorContains(t, err, " was changed while it was in use")
			}
			require.NoError(t, c.Close())
		}
		stop()
		writing.Wait()
	}
}
