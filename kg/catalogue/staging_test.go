package catalogue

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/filelock"
)

// once returns a function that calls f only the first time.
func once(f func()) func() {
	called := false
	return func() {
		if !called {
			called = true
			f()
		}
	}
}

// Get copes with another process that finishes with the folder after Get opens it and before Get
// locks it.
func TestGetAfterALateLock(t *testing.T) {
	t.Run("the other process fetched the data set", func(t *testing.T) {
		s, f := serve(t, toyFiles(".txt", nil)), fetcher(t)
		other := NewFetcher(f.Dir)
		f.opened = once(func() {
			result, err := other.Get(t.Context(), toy(s.URL), "")
			require.NoError(t, err)
			require.Len(t, result.Fetched, 3)
			require.Len(t, s.asked(), 3)
		})
		result, err := f.Get(t.Context(), toy(s.URL), "")
		require.NoError(t, err)
		require.Empty(t, result.Fetched)
		require.Empty(t, s.asked())
		requireToy(t, f)
	})
	t.Run("the other process gave up", func(t *testing.T) {
		s, f := serve(t, toyFiles(".txt", nil)), fetcher(t)
		f.opened = once(func() { require.NoError(t, os.Remove(filepath.Join(f.Dir, ".toy.part"))) })
		result, err := f.Get(t.Context(), toy(s.URL), "")
		require.NoError(t, err)
		require.Len(t, result.Fetched, 3)
		requireToy(t, f)
	})
	t.Run("a third process has the folder", func(t *testing.T) {
		f := fetcher(t)
		var third *staging
		f.opened = once(func() {
			require.NoError(t, os.Remove(filepath.Join(f.Dir, ".toy.part")))
			var err error
			third, err = NewFetcher(f.Dir).openStaging(toy())
			require.NoError(t, err)
		})
		_, err := f.Get(t.Context(), toy(), "")
		require.ErrorContains(t, err, "another process is fetching toy into "+f.Dir+": wait for it")
		require.True(t, third.owned(), "the third process keeps its folder")
		third.close()
		require.Empty(t, entries(t, f.Dir))
	})
}

// On a file system without locks, Get fetches without a lock.
func TestGetWithoutLocks(t *testing.T) {
	s, f := serve(t, toyFiles(".txt", nil)), fetcher(t)
	f.lockFile = func(*os.File) error { return filelock.ErrUnsupported }
	result, err := f.Get(t.Context(), toy(s.URL), "")
	require.NoError(t, err)
	require.Len(t, result.Fetched, 3)
	requireToy(t, f)
}

// A process that has installed its folder does not remove the folder of the next process.
func TestStagingOfTheNextProcess(t *testing.T) {
	f := fetcher(t)
	first, err := f.openStaging(toy())
	require.NoError(t, err)
	writeFiles(t, first.dir, toyFiles(storedExtension, func(text string) string { return gzipped(t, text) }))
	_, err = first.install(filepath.Join(f.Dir, "toy"))
	require.NoError(t, err)
	next, err := f.openStaging(toy())
	require.NoError(t, err)
	first.close()
	require.True(t, next.owned())
	next.close()
	requireToy(t, f)
}
