package bench

import "testing"

// Run runs the benchmark with b. It fails b if there is an error.
func (x Benchmark) Run(b *testing.B) {
	if err := x.run(b.Context(), b); err != nil {
		b.Fatal(err)
	}
}
