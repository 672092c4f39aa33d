package bench

import (
	"slices"
	"strings"
)

// Headline returns the metric by which a benchmark's results are compared: the reported metric that
// disturbances of the machine change least. reports says whether the results have a unit.
//
//   - Ceilings run for a fixed time, so Headline returns their rate.
//   - Kernels on one thread report processor time. Headline returns their share of the ceiling, or the
//     processor time of those without a share.
//   - For training steps, it likewise returns the share of the ceiling in processor time, or the
//     processor time of a step.
//   - For other benchmarks, it returns wall-clock time. The share that Evaluate reports is also one of
//     wall-clock time.
func Headline(name string, reports func(unit string) bool) string {
	var units []string
	switch {
	case Benchmark{Name: name}.Family() == "Ceiling":
		units = []string{"GFLOP/s", "GOP/s", "GB/s"}
	case reports("cpu-sec/op"):
		units = []string{"pct-peak", "cpu-sec/op"}
	case reports("cpu-ms/step"):
		units = []string{"pct-peak", "pct-fma", "cpu-ms/step"}
	}
	if i := slices.IndexFunc(units, reports); i >= 0 {
		return units[i]
	}
	return "sec/op"
}

// MoreIsBetter reports whether a unit is a rate or a share of a limit. The share of undecided pairs
// is not a share of a limit.
func MoreIsBetter(unit string) bool {
	return strings.HasSuffix(unit, "/s") || strings.HasPrefix(unit, "pct-") && unit != "pct-undecided"
}
