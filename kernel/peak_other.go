//go:build !amd64 || noasm

package kernel

var arithmetics = [...]arithmetic{Generic: genericArithmetic}
