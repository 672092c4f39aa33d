//go:build !amd64 || noasm

package ceiling

import "github.com/mquine/mquine/kernel"

func loopsOf(*kernel.Backend) loops { return genericLoops }
