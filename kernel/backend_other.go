//go:build !amd64 || noasm

package kernel

var backends = [...]*Backend{Generic: generic}

func detect() Tier { return Generic }
