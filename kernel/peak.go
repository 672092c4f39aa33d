package kernel

import (
	"sync"
	"time"
)

// Peak measures the rate of the backend's register-only FMA loop on the given number of threads
// for about the given time, in operations a second (a multiply-add is two). It is the ceiling
// of every float32 kernel of this tier.
func (b *Backend) Peak(threads int, d time.Duration) float64 {
	n := 1000
	for { // find a number of rounds that takes a millisecond: a call cannot be interrupted
		start := time.Now()
		b.peak(n)
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
				b.peak(n)
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
	return float64(total) * float64(b.peakFlops) / elapsed
}
