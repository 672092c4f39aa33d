package mapped

import (
	"context"
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"

	"github.com/mquine/mquine/kernel"
)

// Mark records hashes of the contents for Verify. Call it before the first use of the contents.
func (f *File) Mark(ctx context.Context) (err error) {
	f.hashes, err = f.hash(ctx)
	return err
}

// Verify returns an error if the contents have changed since Mark: if their hash, the file's size
// or its modification time differs. The size and the time reveal even a change that was undone.
// Call Verify after the last use of the contents.
func (f *File) Verify(ctx context.Context) error {
	if f.file == nil { // the contents are a copy
		return nil
	}
	hashes, err := f.hash(ctx)
	if err != nil {
		return err
	}
	if f.modified() || !slices.Equal(hashes, f.hashes) {
		return f.changed()
	}
	return nil
}

// modified reports whether the file's size or modification time has changed since Open. The inode's
// change time cannot be used: it also changes when a new file takes the name.
func (f *File) modified() bool {
	now, err := f.file.Stat()
	return err != nil || now.Size() != f.opened.Size() || !now.ModTime().Equal(f.opened.ModTime())
}

func (f *File) changed() error {
	return fmt.Errorf("%s was changed while it was in use, so there are no results: "+
		"try again when no other program is writing to it", f.path)
}

// faulted returns the error for a fault in the contents.
func (f *File) faulted() error {
	if f.modified() {
		return f.changed()
	}
	return fmt.Errorf("%s can no longer be read: its disk or the network reports an error", f.path)
}

// seed is shared by all hashes of this process, which makes them comparable.
var seed = maphash.MakeSeed()

// hash returns the hashes of consecutive pieces of the contents.
func (f *File) hash(ctx context.Context) ([]uint64, error) {
	pieces := slices.Collect(slices.Chunk(f.contents, 1<<20))
	hashes := make([]uint64, len(pieces))
	err := kernel.Parallel(ctx, runtime.GOMAXPROCS(0), len(pieces), func(_, i int) {
		hashes[i] = maphash.Bytes(seed, pieces[i])
	})
	return hashes, err
}
