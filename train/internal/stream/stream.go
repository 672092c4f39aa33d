// Package stream seeds a separate stream of random numbers for each use, so draws do not depend on
// the number of threads.
package stream

import "math/rand/v2"

// Seed seeds a generator from a seed, a use and three counters, such as an epoch, a step and an
// item.
//
// The streams of a use u are also the streams of use u−1 with the next seed, because only the sum of
// seed and use matters. A run has one seed, so its uses have different streams. Two runs with
// neighbouring seeds share numbers, but each run uses them for a different purpose. A different
// formula would change the bytes of all trained models.
func Seed(pcg *rand.PCG, seed uint64, use uint64, epoch, step, item int) {
	pcg.Seed(mix(seed+use), mix(mix(uint64(epoch)<<32|uint64(uint32(step)))+uint64(item)))
}

// mix returns the first output of SplitMix64 with the seed x. It makes the streams of neighbouring
// numbers unrelated.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
