//go:build !linux && !windows

package atomicfile

import "os"

// renameNew renames a folder. It replaces an empty folder at the new name, but fails if anything
// else is there.
func renameNew(from, to string) error { return os.Rename(from, to) }
