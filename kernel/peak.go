package kernel

import (
	"sync"
	"time"
)

// Peak measures the rate of the FMA loop on registers alone, on the given number of threads for
// about the given time, in operations a second (a multiply-add is two). It is the ceiling of
// every float32 dot product of this tier.
func (b *Backend) Peak(threads int, d time.Duration) float64 {
	return 2 * b.PeakTerms(Dot, threads, d)
}

// PeakTerms measures the rate of a comparison's operations on registers alone, in terms of scores
// a second: the ceiling of its panels.
func (b *Backend) PeakTerms(c Comparison, threads int, d time.Duration) float64 {
	// Operands of both signs and of ordinary size, different in every lane.
	var operands [64]float32
	for i := range operands {
		operands[i] = float32(i%7-3)*0.37 + float32(i)*0.01
	}
	peak := func(n int) { b.compare[c].peak(n, &operands[0]) }
	n := 1000
	for { // find a number of rounds that takes a millisecond: a call cannot be interrupted
		start := time.Now()
		peak(n)
		if time.Since(start) > time.Millisecond {
			break
		}
		n *= 2
	}
	rounds := make([]int, threads)
	start := time.Now()
	var wg sync.WaitGroup
	for t := range threads {
		wg.Go(func() {
			for time.Since(start) < d {
				peak(n)
				rounds[t] += n
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start).Seconds()
	total := 0
	for _, r := range rounds {
		total += r
	}
	return float64(total) * float64(b.compare[c].peakTerms) / elapsed
}
