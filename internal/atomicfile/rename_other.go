//go:build !linux

package atomicfile

import "os"

// renameNew renames a folder to a name that must be free.
func renameNew(from, to string) error { return os.Rename(from, to) }
