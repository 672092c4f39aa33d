package bench

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/mquine/mquine/kernel/ceiling"
)

// operation is a kernel call to measure on one thread.
type operation struct {
	call func()
	// flops is the number of floating-point operations in a call. bytes is the number of bytes that
	// a call must read or write at least once. If an amount is 0, its rate is not reported.
	flops, bytes float64
	// others contains further amounts per call, keyed by the units of their rates, such as
	// "queries/s".
	others map[string]float64
	limits []share
}

// share is a metric in percent: a rate, which is an amount per call divided by the time of the
// call, relative to the limit on this rate.
type share struct {
	unit   string
	amount float64
	limit  *limit
}

// limit is a ceiling.Ceiling that is sampled many times.
type limit struct {
	perRound float64
	loop     func(rounds int)
	n        int // rounds in one call of loop
}

func newLimit(c ceiling.Ceiling) *limit { return &limit{c.PerRound, c.Loop(), 1} }

// sample runs the loop for half a millisecond and returns its rate.
func (l *limit) sample() float64 {
	for start, rounds := threadTime(), 0; ; {
		l.loop(l.n)
		rounds += l.n
		switch t := threadTime() - start; {
		case t >= 500*time.Microsecond:
			return float64(rounds) * l.perRound / t.Seconds()
		case t < 50*time.Microsecond:
			l.n *= 2
		}
	}
}

// slice is how long the operation runs between two samples of its limits. It is short, so the
// operation and the samples run at the same frequency and alongside the same other programs.
const slice = 4 * time.Millisecond

// measure reports the rates of an operation.
//
// Rates are per second of the thread's processor time, where the system reports it, because time
// that other processes use is not a property of the kernel. They are medians over short slices. A
// share is the median of the slices' shares, each relative to the limit as measured right before
// and after the slice. ns/op is mean wall-clock time, as in every benchmark, and cpu-ns/op is
// median processor time.
func (o operation) measure(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	o.call() // warms the caches
	before := make([]float64, len(o.limits))
	for i, s := range o.limits {
		before[i] = s.limit.sample()
	}
	var perCall []float64 // seconds, for each slice
	shares := make([][]float64, len(o.limits))
	calls, want := 0, 1
	start := threadTime()
	for b.Loop() {
		o.call()
		if calls++; calls < want {
			continue
		}
		each := (threadTime() - start).Seconds() / float64(calls)
		b.StopTimer()
		perCall = append(perCall, each)
		for i, s := range o.limits {
			after := s.limit.sample()
			shares[i] = append(shares[i], s.amount/each/((before[i]+after)/2))
			before[i] = after
		}
		calls, want = 0, max(1, int(slice.Seconds()/each))
		b.StartTimer()
		start = threadTime()
	}
	perSecond := 1 / median(perCall)
	report := func(unit string, value float64) {
		if value > 0 {
			b.ReportMetric(value, unit)
		}
	}
	if threadTimeKnown {
		b.ReportMetric(1e9/perSecond, "cpu-ns/op")
	}
	report("GFLOP/s", o.flops*perSecond/1e9)
	report("GB/s", o.bytes*perSecond/1e9)
	for unit, amount := range o.others {
		report(unit, amount*perSecond)
	}
	for i, s := range o.limits {
		report(s.unit, 100*median(shares[i]))
	}
}

// measureError measures a call that may fail, and returns the error of the last call that failed.
func (o operation) measureError(b *testing.B, call func() error) (err error) {
	o.call = func() {
		if failed := call(); failed != nil {
			err = failed
		}
	}
	o.measure(b)
	return err
}

// median sorts x and returns its median.
func median(x []float64) float64 {
	slices.Sort(x)
	return (x[len(x)/2] + x[(len(x)-1)/2]) / 2
}
