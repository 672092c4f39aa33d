// Package report draws benchmark results as one self-contained HTML page that needs no network
// access, scripts or fonts. Write reads the results and writes the page.
package report

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/perf/benchmath"

	"github.com/mquine/mquine/bench"
	"github.com/mquine/mquine/internal/text"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// class holds the results from comparable machines (bench.Machine.Class).
type class struct {
	name    string
	commits []*commit // oldest first
}

// commit holds the results of one commit.
type commit struct {
	id, time string
	config   map[string]string
	// values are indexed by benchmark and unit.
	values map[string]map[string][]float64
}

// Write reads the results in dir, which contains a folder for each class of machines, and writes
// the page.
func Write(ctx context.Context, w io.Writer, dir string) error {
	classes, err := read(ctx, dir)
	if err != nil {
		return err
	}
	var views []classView
	for _, c := range classes {
		views = append(views, c.view())
	}
	return page.Execute(text.NewWriter(w), views)
}

func read(ctx context.Context, dir string) ([]class, error) {
	folders, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read results: %w", err)
	}
	var classes []class
	for _, folder := range folders {
		if !folder.IsDir() {
			continue
		}
		commits, err := readClass(ctx, filepath.Join(dir, folder.Name()))
		if err != nil {
			return nil, err
		}
		if len(commits) > 0 {
			classes = append(classes, class{folder.Name(), commits})
		}
	}
	if len(classes) == 0 {
		return nil, fmt.Errorf("there are no results in %s: run mquine bench run --results %s", dir, dir)
	}
	return classes, nil
}

// readClass reads the results in a class's folder.
func readClass(ctx context.Context, folder string) ([]*commit, error) {
	files, err := fs.Glob(os.DirFS(folder), "*.txt")
	if err != nil {
		return nil, err
	}
	byID := map[string]*commit{}
	for _, name := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		results, err := bench.ReadResults(ctx, filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		for _, r := range results {
			id := r.Config["commit"]
			if byID[id] == nil {
				byID[id] = &commit{id: id, values: map[string]map[string][]float64{}}
			}
			byID[id].add(r)
		}
	}
	return slices.SortedFunc(maps.Values(byID), func(a, b *commit) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.id, b.id))
	}), nil
}

func (c *commit) add(r bench.Result) {
	if c.config == nil || r.Config["ceiling"] != "" {
		c.config, c.time = r.Config, cmp.Or(known(r.Config["commit-time"]), r.Config["measured"], c.time)
	}
	if c.values[r.Name] == nil {
		c.values[r.Name] = map[string][]float64{}
	}
	for unit, v := range r.Values {
		c.values[r.Name][unit] = append(c.values[r.Name][unit], v)
	}
}

// known returns s, or "" if s is "unknown".
func known(s string) string {
	if s == "unknown" {
		return ""
	}
	return s
}

// classView is a class as the page shows it.
type classView struct {
	Name                  string
	CPU, Tier, Threads    string
	Features              string // empty in old results
	Commit, Ceiling       string
	Measured, GoVersion   string
	Commits               int
	Roofline, RooflineTop *picture // the wide one, and the narrow one for phones; nil if there is nothing to draw
	Kernels, Jobs         []section
	Ceilings              []ceiling
	Rivals                []contest
	Trends                []group
}

// section is the table of a family, with a row for each shape and a cell for each tier.
type section struct {
	Family, About string
	Tiers         []string
	Lines         []line
}

type line struct {
	Shape string
	Cells []cell
}

// cell is a tier's result.
type cell struct {
	Known bool
	Main  string  // the rate, or the time if there is none
	Share float64 // percent of the limit, or 0
	Of    string  // the limit
	Times string  // speed relative to the slowest tier
	Older string  // the commit, unless it is the newest one
}

// latest returns the newest values of a benchmark and their commit.
func (c class) latest(name, unit string) (values []float64, from *commit) {
	for _, at := range slices.Backward(c.commits) {
		if v := at.values[name][unit]; len(v) > 0 {
			return v, at
		}
	}
	return nil, nil
}

// best returns the median of the newest values, or 0 if there are none.
func (c class) best(name, unit string) float64 {
	v, _ := c.latest(name, unit)
	if len(v) == 0 {
		return 0
	}
	return median(v)
}

func (c class) newest() *commit { return c.commits[len(c.commits)-1] }

// names lists all benchmarks: first the current ones in the order of bench.All, then others by
// name.
func (c class) names() []string {
	seen := map[string]bool{}
	for _, at := range c.commits {
		for name := range at.values {
			seen[name] = true
		}
	}
	place := map[string]int{}
	if all, err := bench.All(); err == nil {
		for i, x := range all {
			place[x.Name] = i + 1
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b string) int {
		pa, pb := place[a], place[b]
		if (pa == 0) != (pb == 0) {
			return cmp.Compare(pb, pa)
		}
		return cmp.Or(cmp.Compare(pa, pb), cmp.Compare(a, b))
	})
}

// split returns the parts of a name: the family, the values of the keys tier and rival, and the
// remaining key=value pairs.
func split(name string) (family, tier, rival, shape string) {
	parts := strings.Split(name, "/")
	var rest []string
	for _, p := range parts[1:] {
		switch key, value, _ := strings.Cut(p, "="); key {
		case "tier":
			tier = value
		case "rival":
			rival = value
		default:
			rest = append(rest, p)
		}
	}
	return parts[0], tier, rival, strings.Join(rest, " ")
}

// abouts describes the families, kernels first.
var abouts = []struct {
	family string
	kernel bool
	about  string
}{
	{"Panel", true, "scores a query block against panels of candidates from memory, and counts"},
	{"Pair", true, "scores a query against single rows of a table in memory, in float64"},
	{"MatMulFMA", true, "multiplies d × d matrices in float64, with fused multiply-adds"},
	{"MatMul", true, "multiplies d × d matrices in float64, rounding products and sums separately"},
	{"Frobenius", true, "computes the norm of a combination of three d × d matrices in float64"},
	{"PackRows", true, "interleaves rows of a table into panels"},
	{"Features", true, "computes the feature vector φ of one entity"},
	{"Query", true, "computes the query vector ψ of one query"},
	{"Reference", true, "computes one reference score"},
	{"Load", false, "reads a data set"},
	{"Index", false, "indexes the known answers"},
	{"Open", false, "opens and checks a checkpoint"},
	{"Pack", false, "computes and packs the features of all candidates"},
	{"Evaluate", false, "ranks 500 test triples on both sides under every filter, on all threads"},
	{"Predict", false, "finds the ten best answers to 32 queries, on all threads"},
}

var tierOrder = []string{"avx512", "avx2", "generic", ""}

func (c class) view() classView {
	newest := c.newest()
	v := classView{
		Name: c.name, CPU: newest.config["cpu"], Tier: newest.config["tier"], Threads: newest.config["threads"],
		Features: newest.config["features"],
		Commit:   short(newest.id), Ceiling: newest.config["ceiling"], Measured: newest.config["measured"],
		GoVersion: newest.config["go"], Commits: len(c.commits),
	}
	names := c.names()
	v.Roofline, v.RooflineTop = c.roofline(names, v.Tier, 860), c.roofline(names, v.Tier, 400)
	for _, a := range abouts {
		if s := c.section(names, a.family, a.about); len(s.Lines) > 0 {
			if a.kernel {
				v.Kernels = append(v.Kernels, s)
			} else {
				v.Jobs = append(v.Jobs, s)
			}
		}
	}
	v.Ceilings = c.ceilings(names)
	v.Rivals = c.rivals(names)
	v.Trends = c.trends(names)
	return v
}

// section returns the table of a family.
func (c class) section(names []string, family, about string) section {
	s := section{Family: family, About: about}
	tiers := map[string]bool{}
	shapes := map[string]map[string]string{} // names by shape and tier
	var order []string
	for _, name := range names {
		f, tier, rival, shape := split(name)
		if f != family || rival != "" {
			continue
		}
		if shapes[shape] == nil {
			shapes[shape] = map[string]string{}
			order = append(order, shape)
		}
		shapes[shape][tier] = name
		tiers[tier] = true
	}
	for _, t := range tierOrder {
		if tiers[t] {
			s.Tiers = append(s.Tiers, t)
		}
	}
	for _, shape := range order {
		l := line{Shape: shape}
		slowest := 0.0
		for _, t := range s.Tiers {
			slowest = max(slowest, c.time(shapes[shape][t]))
		}
		for _, t := range s.Tiers {
			l.Cells = append(l.Cells, c.cell(names, shapes[shape][t], slowest))
		}
		s.Lines = append(s.Lines, l)
	}
	return s
}

// time returns the newest time of a benchmark in seconds: processor time if it was measured, and
// wall-clock time otherwise.
func (c class) time(name string) float64 {
	return cmp.Or(c.best(name, "cpu-sec/op"), c.best(name, "sec/op"))
}

// mainRates are the units to show, the most informative first.
var mainRates = []string{"queries/s", "scores/s", "entities/s", "GFLOP/s", "triples/s", "GB/s"}

// cell returns a benchmark's cell. slowest is the longest time of any tier.
func (c class) cell(names []string, name string, slowest float64) (out cell) {
	if c.time(name) == 0 {
		return out
	}
	out.Known = true
	_, from := c.latest(name, "sec/op")
	if from != nil && from != c.newest() {
		out.Older = short(from.id)
	}
	for _, unit := range mainRates {
		if v := c.best(name, unit); v > 0 {
			out.Main = rate(v, unit)
			break
		}
	}
	if out.Main == "" {
		out.Main = seconds(c.time(name))
	}
	for unit, of := range map[string]string{"pct-bandwidth": "of bandwidth", "pct-peak": "of peak"} {
		if v := c.best(name, unit); v > out.Share {
			out.Share, out.Of = v, of
		}
	}
	times := slowest / c.time(name)
	if strings.HasPrefix(name, "Panel") || strings.HasPrefix(name, "Evaluate") || times <= 1.005 {
		// Tiers have panels of different sizes: compare rates instead of times.
		times = c.best(name, "GFLOP/s") / c.slowRate(names, name)
	}
	if times > 1.005 && !math.IsInf(times, 0) {
		out.Times = fmt.Sprintf("%.1f×", times)
	}
	return out
}

// slowRate returns the lowest GFLOP/s of any tier on the same shape, or 0 if there is none.
func (c class) slowRate(names []string, name string) float64 {
	family, _, _, shape := split(name)
	least := 0.0
	for _, other := range names {
		f, tier, rival, s := split(other)
		if f != family || s != shape || rival != "" || !slices.Contains(tierOrder, tier) {
			continue
		}
		if v := c.best(other, "GFLOP/s"); v > 0 && (least == 0 || v < least) {
			least = v
		}
	}
	return least
}

// ceiling is a row in the table of the machine's limits.
type ceiling struct {
	Tier, Of   string
	One, All   string
	AllThreads string
}

var ceilingNames = map[string]string{
	"fma32":      "float32 multiply-add, fused",
	"l1":         "L1 distance, float32",
	"group-norm": "group norm, float32",
	"phase":      "phase, float32",
	"fma64":      "float64 multiply-add, fused",
	"muladd64":   "float64 multiply, then add",
	"int8":       "int8 multiply-add",
	"int8-tiles": "int8 multiply-add, AMX",
	"read-l1":    "reading the L1 cache",
	"read-l2":    "reading the L2 cache",
	"read-l3":    "reading the L3 cache",
	"read-dram":  "reading memory",
}

func (c class) ceilings(names []string) []ceiling {
	var list []ceiling
	at := map[string]int{}
	for _, name := range names {
		family, tier, _, shape := split(name)
		if family != "Ceiling" {
			continue
		}
		of, threads, _ := strings.Cut(strings.TrimPrefix(shape, "of="), " threads=")
		value := ""
		for _, unit := range []string{"GFLOP/s", "GOP/s", "GB/s"} {
			if v := c.best(name, unit); v > 0 {
				value = rate(v, unit)
			}
		}
		key := tier + "/" + of
		i, ok := at[key]
		if !ok {
			i = len(list)
			at[key] = i
			list = append(list, ceiling{Tier: tier, Of: cmp.Or(ceilingNames[of], of)})
		}
		if threads == "1" {
			list[i].One = value
		} else {
			list[i].All, list[i].AllThreads = value, threads
		}
	}
	return list
}

// contest compares rivals on one job.
type contest struct {
	Job     string
	Entries []entry
}

type entry struct {
	Rival, Time, Times string
	Share              float64 // of the slowest, in percent
	Own                bool
}

func (c class) rivals(names []string) []contest {
	var list []contest
	at := map[string]int{}
	times := map[string][]float64{}
	for _, name := range names {
		family, tier, rival, shape := split(name)
		if rival == "" {
			continue
		}
		job := strings.Join(strings.Fields(family+" "+tier+" "+shape), " ")
		i, ok := at[job]
		if !ok {
			i = len(list)
			at[job] = i
			list = append(list, contest{Job: job})
		}
		list[i].Entries = append(list[i].Entries, entry{Rival: rival, Own: rival == "mquine"})
		times[job] = append(times[job], c.best(name, "sec/op"))
	}
	for i := range list {
		t := times[list[i].Job]
		slowest, own := slices.Max(t), 0.0
		for k, e := range list[i].Entries {
			if e.Own {
				own = t[k]
			}
		}
		for k := range list[i].Entries {
			e := &list[i].Entries[k]
			e.Time, e.Share = seconds(t[k]), 100*t[k]/slowest
			if own > 0 && !e.Own {
				e.Times = fmt.Sprintf("%.2f×", t[k]/own)
			}
		}
		slices.SortStableFunc(list[i].Entries, func(a, b entry) int { return cmp.Compare(a.Share, b.Share) })
	}
	return list
}

func median(x []float64) float64 { return summary(x).Center }

func summary(x []float64) benchmath.Summary {
	sample := benchmath.NewSample(slices.Clone(x), &benchmath.DefaultThresholds)
	return benchmath.AssumeNothing.Summary(sample, 0.95)
}

// short returns the beginning of a commit's hash and the beginning of the suffix after "+", which
// marks changed files.
func short(id string) string {
	hash, dirty, _ := strings.Cut(id, "+")
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

func digits(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
