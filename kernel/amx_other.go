//go:build !linux || !amd64 || noasm

package kernel

// requestAMX reports false: mquine knows how to ask for AMX on Linux only.
func requestAMX() bool { return false }
