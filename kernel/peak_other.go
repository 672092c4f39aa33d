//go:build !amd64 || noasm

package kernel

var arithmetics = [...]arithmetic{Generic: genericArithmetic}

// tilePeak is never called: there is no AMX.
var tilePeak func(n int, x *byte)
