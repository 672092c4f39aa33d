//go:build !linux || !amd64 || noasm

package kernel

// requestAMX reports false: mquine can request permission for AMX only on Linux.
func requestAMX() bool { return false }
