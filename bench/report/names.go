package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg/catalogue"
	"github.com/mquine/mquine/model"
)

// families describes the families of benchmarks, in the order of the page.
var families = []struct {
	name   string
	kernel bool
	hue    int // in the roofline
	about  string
}{
	{"Panel", true, 1, "scores a query block against panels of candidates from memory, and counts better candidates"},
	{"Pair", true, 3, "scores a query against single rows in memory, or 48 rows of codes in the L2 cache"},
	{"MatMulFMA", true, 4, "multiplies d × d matrices in float64, with fused multiply-adds"},
	{"MatMul", true, 4, "multiplies d × d matrices in float64, rounding products and sums separately"},
	{"Frobenius", true, 4, "computes the norm of a combination of three d × d matrices in float64"},
	{"PackRows", true, 5, "interleaves rows of a table into panels"},
	{"Features", true, 5, "computes the feature vector φ of one entity"},
	{"Query", true, 5, "computes the query vector ψ of one query"},
	{"Reference", true, 5, "computes one reference score"},
	{"Product", true, 6, "computes a product of a training step for 2,048 queries, including its packing"},
	{"BFloat16Product", true, 6, "computes a product of a training step in bfloat16"},
	{"TileProduct", true, 6, "computes a product of a training step in bfloat16 with AMX"},
	{"SplitProduct", true, 6, "computes a product of a training step with two bfloat16 values for each float32"},
	{"Distance", true, 6, "computes scores or gradients of 512 queries in a training step, including packing"},
	{"Region", true, 6, "computes scores or gradients of regions for 64 queries and 512 features in a training step"},
	{"Small", true, 6, "multiplies small matrices, or computes the features or a gradient of an entity"},
	{"Rows", true, 6, "computes softmax, Adam or a similar operation on 1,024 entries"},
	{"Load", false, 0, "reads a data set"},
	{"Index", false, 0, "indexes the known answers"},
	{"Open", false, 0, "opens and checks a checkpoint"},
	{"Pack", false, 0, "computes and packs the features of all candidates"},
	{"Evaluate", false, 0, "ranks 500 test triples on both sides under every filter, on all threads"},
	{"ScreenChoice", false, 0, "divides the processor time of --screen auto by the time of the fastest screen"},
	{"Predict", false, 0, "finds the ten best answers to 32 queries, on all threads"},
	{"TrainStep", false, 0, "runs training steps in rounds of 16, on all threads; times per step are of one step"},
	{"PresetStep", false, 0, "runs training steps of a preset, as TrainStep does"},
	{"BFloat16TrainStep", false, 0, "runs training steps with products in bfloat16"},
	{"TileTrainStep", false, 0, "runs training steps with products in bfloat16 with AMX"},
	{"SplitTrainStep", false, 0, "runs training steps with two bfloat16 values for each float32"},
}

// unknownFamilies returns the families of the names that families does not describe, such as those
// from other versions. Ceilings have another table.
func unknownFamilies(names []string) []string {
	known := map[string]bool{"Ceiling": true}
	for _, f := range families {
		known[f.name] = true
	}
	var list []string
	for _, name := range names {
		if family, _, _, _ := split(name); !known[family] {
			known[family] = true
			list = append(list, family)
		}
	}
	return list
}

// integers is the hue of int8 and int16 kernels in the roofline.
const integers = 2

var rivalTitles = map[string]string{
	"openblas": "OpenBLAS", "onednn": "oneDNN", "plain": "plain Go", "torch": "PyTorch",
	"torch-unique": "PyTorch on distinct queries",
}

// describe returns the key=value pairs of a benchmark's name in readable form, such as "FB15k-237,
// ComplEx, d = 500".
func describe(shape string) string {
	var parts []string
	for _, pair := range strings.Fields(shape) {
		key, value, _ := strings.Cut(pair, "=")
		switch key {
		case "data":
			if d, ok := catalogue.Find(value); ok {
				value = d.Title
			}
		case "model":
			if spec, err := model.Lookup(value); err == nil {
				value = cmp.Or(spec.Title, value)
			}
		case "dim":
			value = "d = " + value
		case "k", "n", "d":
			value = key + " = " + value
		case "compare", "of", "kind", "op", "checkpoint":
		case "zsamples":
			value += " Z-samples"
		default:
			value = strings.TrimSpace(key + " " + value)
		}
		parts = append(parts, value)
	}
	return strings.Join(parts, ", ")
}

// natural compares names, and the numbers in them by value.
func natural(a, b string) int {
	for a != "" && b != "" {
		da, db := digitsBefore(a), digitsBefore(b)
		if da > 0 && db > 0 {
			na, nb := strings.TrimLeft(a[:da], "0"), strings.TrimLeft(b[:db], "0")
			if c := cmp.Or(cmp.Compare(len(na), len(nb)), cmp.Compare(na, nb)); c != 0 {
				return c
			}
			a, b = a[da:], b[db:]
			continue
		}
		if c := cmp.Compare(a[0], b[0]); c != 0 {
			return c
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// digitsBefore returns the number of digits at the start of s.
func digitsBefore(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// short returns the beginning of a commit's hash and the beginning of the suffix after "+", which
// marks changed files. In rivals' results from earlier versions, the mark is "-dirty".
func short(id string) string {
	hash, dirty, _ := strings.Cut(strings.Replace(id, "-dirty", "+dirty", 1), "+")
	s := fmt.Sprintf("%.10s", hash)
	if dirty != "" {
		s += fmt.Sprintf("+%.10s", dirty)
	}
	return cmp.Or(s, "unknown")
}

// rate formats a rate with three digits.
func rate(v float64, unit string) string {
	for _, p := range []struct {
		prefix string
		scale  float64
	}{{"M", 1e6}, {"k", 1e3}} {
		if v >= 10*p.scale && !strings.HasPrefix(unit, "G") {
			return digits(v/p.scale) + p.prefix + " " + unit
		}
	}
	return digits(v) + " " + unit
}

// seconds formats a time with three digits.
func seconds(t float64) string {
	for _, p := range []struct {
		unit  string
		scale float64
	}{{"s", 1}, {"ms", 1e-3}, {"µs", 1e-6}} {
		if t >= p.scale {
			return digits(t/p.scale) + " " + p.unit
		}
	}
	return digits(t*1e9) + " ns"
}

// value formats a value with its unit.
func value(v float64, unit string) string {
	switch {
	case unit == "sec/op" || unit == "cpu-sec/op":
		return seconds(v)
	case strings.HasPrefix(unit, "pct-"):
		return digits(v) + "%"
	}
	return rate(v, unit)
}

func digits(v float64) string {
	switch {
	case v >= 1000 && v < 1e15:
		return text.Comma(int64(v + 0.5))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
