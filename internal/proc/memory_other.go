//go:build !linux && !darwin && !windows

package proc

// memoryLimits returns nil, because the limits are unknown on this system.
func memoryLimits() []Room { return nil }
