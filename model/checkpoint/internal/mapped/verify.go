package mapped

import (
	"context"
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"

	"github.com/mquine/mquine/kernel"
)

// Mark remembers what is in the file, for Verify. It must come before the first use of the contents.
func (f *File) Mark(ctx context.Context) (err error) {
	f.hashes, err = f.hash(ctx)
	return err
}

// Verify returns an error if the contents changed since Mark: if their hash did, or the file's size or
// time of modification, which tell of a change that was undone. It must come after the last use of the
// contents.
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

// modified tells whether the system knows of a change since Open. The time of a change of the inode says
// nothing: a file that is replaced by another of the same name has one, too.
func (f *File) modified() bool {
	now, err := f.file.Stat()
	return err != nil || now.Size() != f.opened.Size() || !now.ModTime().Equal(f.opened.ModTime())
}

func (f *File) changed() error {
	return fmt.Errorf("%s was changed while it was in use, so there are no results: "+
		"try again when no other program writes to it", f.path)
}

// faulted explains a fault in the contents.
func (f *File) faulted() error {
	if f.modified() {
		return f.changed()
	}
	return fmt.Errorf("%s cannot be read any more: its disk, or the network, reports an error", f.path)
}

// seed is the same for all hashes that this process compares.
var seed = maphash.MakeSeed()

// hash returns the hashes of successive pieces of the contents.
func (f *File) hash(ctx context.Context) ([]uint64, error) {
	pieces := slices.Collect(slices.Chunk(f.contents, 1<<20))
	hashes := make([]uint64, len(pieces))
	err := kernel.Parallel(ctx, runtime.GOMAXPROCS(0), len(pieces), func(_, i int) {
		hashes[i] = maphash.Bytes(seed, pieces[i])
	})
	return hashes, err
}
