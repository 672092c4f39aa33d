//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package atomicfile

import "os"

func tryLock(*os.File) lockState { return unsupported }
