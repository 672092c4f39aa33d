//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package filelock

import "os"

func open(path string, flag int) (*os.File, error) { return os.OpenFile(path, flag, 0) }

func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
}

func lock(*os.File) error { return ErrUnsupported }
