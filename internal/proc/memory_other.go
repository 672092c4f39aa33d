//go:build !linux && !darwin

package proc

// memoryLimits returns none: they are not known on this system.
func memoryLimits() []Room { return nil }
