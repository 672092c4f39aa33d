//go:build !unix

package atomicfile

import "io/fs"

func checkLink(string, fs.FileInfo) error { return nil }
