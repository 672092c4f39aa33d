//go:build !amd64 || noasm

package kernel

var arithmetics = [...]arithmetic{Generic: genericArithmetic}

// These are never called: there is no AMX.
var tilePeak, splitTilePeak func(n int, x *byte)
