//go:build !amd64 || noasm

package linalg

import "github.com/mquine/mquine/kernel"

var constructors = [...]func(kernel.Features) *Backend{kernel.Generic: newGeneric}
