//go:build !linux || !amd64 || noasm

package kernel

// allowTiles: only Linux is known to let a process use the tiles of AMX when it asks.
func allowTiles() bool { return false }
