//go:build !amd64 || noasm

package kernel

var constructors = [...]func(Features) *Backend{Generic: newGeneric}

func detectFeatures() Features { return 0 }
