//go:build linux && amd64

package main

import "testing"

// TestFit compares fit with values that were computed by hand with the rules of NVIDIA's occupancy
// calculator. For example, 128 registers allow 16 warps, and 255 allow 8.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		arch                    string
		registers, shared, want int
	}{
		{"sm_80", 32, 0, 8}, {"sm_86", 32, 0, 6}, {"sm_89", 32, 0, 6}, {"sm_90", 40, 0, 6}, {"sm_90", 41, 0, 5},
		{"sm_86", 128, 32 << 10, 2}, {"sm_86", 128, 50 << 10, 1}, {"sm_86", 128, 49 << 10, 2},
		{"sm_80", 128, 50 << 10, 2},
		{"sm_90", 129, 0, 1}, {"sm_90", 255, 0, 1}, {"sm_86", 64, 99 << 10, 1}, {"sm_86", 64, 100 << 10, 0},
	} {
		if got := multiprocessors[c.arch].fit(c.registers, c.shared); got != c.want {
			t.Errorf("%s: %d registers, %d bytes: %d thread blocks, want %d", c.arch, c.registers, c.shared, got,
				c.want)
		}
	}
}
