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
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mquine/mquine/bench"
	"github.com/mquine/mquine/internal/compressed"
	"github.com/mquine/mquine/internal/plot"
	"github.com/mquine/mquine/internal/text"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// class holds comparable results: from one folder (bench.Machine.Class) and with the same processor
// features.
type class struct {
	name    string
	commits []*commit // oldest first
	// variant describes the features if the folder has results with several sets of features.
	variant string
}

// commit holds the results of one commit. The results of a comparison with rivals, which the same
// file contains, are a separate commit: only times of the same run can be compared.
type commit struct {
	id, time string
	rivals   string // the file of the comparison, or ""
	features string // "" in results of earlier versions
	config   map[string]string
	// values are indexed by benchmark and unit.
	values map[string]map[string][]float64
}

// ErrNoResults means that a folder contains no results.
var ErrNoResults = errors.New("no results")

// Write reads the results in dir, which contains a folder for each class of machines, and writes
// the page. Without results, it returns ErrNoResults.
func Write(ctx context.Context, w io.Writer, dir string) error {
	classes, err := read(ctx, dir)
	if err != nil {
		return err
	}
	var views []classView
	for i, c := range classes {
		views = append(views, c.view(i+1))
	}
	return page.Execute(text.NewWriter(w), struct {
		Style   template.CSS
		Classes []classView
	}{plot.CSS(), views})
}

func read(ctx context.Context, dir string) ([]class, error) {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is a file: name the folder that contains a folder of results for each class of "+
			"machine", dir)
	}
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
		classes = append(classes, byFeatures(folder.Name(), commits)...)
	}
	if len(classes) == 0 {
		return nil, fmt.Errorf("%s contains %w", dir, ErrNoResults)
	}
	return classes, nil
}

// byFeatures divides the commits of a folder by processor features, the longest list first. Commits
// without this information are a class only if there are several sets that they could belong to.
func byFeatures(folder string, commits []*commit) (classes []class) {
	sets := map[string][]*commit{}
	for _, c := range commits {
		sets[c.features] = append(sets[c.features], c)
	}
	known := slices.DeleteFunc(slices.Collect(maps.Keys(sets)), func(f string) bool { return f == "" })
	if len(commits) > 0 && len(known) < 2 {
		return []class{{name: folder, commits: commits}}
	}
	for _, features := range slices.SortedFunc(maps.Keys(sets), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	}) {
		classes = append(classes, class{folder, sets[features], cmp.Or(features, "unknown features")})
	}
	return classes
}

// readClass reads the results in a class's folder, compressed or not.
func readClass(ctx context.Context, folder string) ([]*commit, error) {
	var files []string
	for _, extension := range compressed.Extensions() {
		some, err := fs.Glob(os.DirFS(folder), "*.txt"+extension)
		if err != nil {
			return nil, err
		}
		files = append(files, some...)
	}
	slices.Sort(files)
	byID := map[[3]string]*commit{}
	for _, name := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		results, err := bench.ReadResults(ctx, filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		for _, r := range results {
			at := commit{id: r.Config["commit"], time: nameTime(name), features: r.Config["features"]}
			if _, _, rival, _ := split(r.Name); rival != "" {
				at.rivals = name
			}
			key := [3]string{at.id, at.rivals, at.features}
			if byID[key] == nil {
				at.values = map[string]map[string][]float64{}
				byID[key] = &at
			}
			byID[key].add(r)
		}
	}
	return slices.SortedFunc(maps.Values(byID), func(a, b *commit) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.id, b.id), cmp.Compare(a.rivals, b.rivals),
			cmp.Compare(a.features, b.features))
	}), nil
}

// nameTime returns the time at the start of a file's name, in the form of commit-time, or "" if the
// name has none. Rivals' results from earlier versions have no other time.
func nameTime(name string) string {
	const layout = "20060102T150405Z"
	at, err := time.Parse(layout, name[:min(len(layout), len(name))])
	if err != nil {
		return ""
	}
	return at.Format(time.RFC3339)
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
	ID                  string // prefix of the anchors
	Title, Tier         string
	Features            string // empty in old results
	Commit, Ceiling     string
	Measured, GoVersion string
	Commits             int
	Headline            []string
	Rivals              []contest
	Slowdowns, Roofline template.HTML // empty if there is nothing to draw
	Kernels, Jobs       []section
	Ceilings            []ceiling
	Trends              []group
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
	return median(v)
}

// newest returns the newest commit with benchmarks of mquine alone, or the newest one if all results
// are comparisons with rivals.
func (c class) newest() *commit {
	for _, at := range slices.Backward(c.commits) {
		if at.rivals == "" {
			return at
		}
	}
	return c.commits[len(c.commits)-1]
}

// revisions returns the number of distinct commits.
func (c class) revisions() int {
	seen := map[string]bool{}
	for _, at := range c.commits {
		seen[short(at.id)] = true
	}
	return len(seen)
}

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
		return cmp.Or(cmp.Compare(pa, pb), natural(a, b))
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

// title names the processor, the number of threads and, if they distinguish the class from others of
// the folder, the features.
func (c class) title() string {
	config := c.newest().config
	threads := config["threads"] + " threads"
	if n, err := strconv.Atoi(config["threads"]); err == nil {
		threads = text.Plural(n, "thread")
	}
	title := config["cpu"] + ", " + threads
	if c.variant != "" {
		title += " (" + c.variant + ")"
	}
	return title
}

func (c class) view(number int) classView {
	newest := c.newest()
	v := classView{
		ID: fmt.Sprintf("m%d", number), Title: c.title(), Tier: newest.config["tier"],
		Features: newest.config["features"],
		Commit:   short(newest.id), Ceiling: newest.config["ceiling"], Measured: newest.config["measured"],
		GoVersion: newest.config["go"], Commits: c.revisions(),
	}
	names := c.names()
	v.Rivals = c.rivals(names)
	v.Headline, v.Slowdowns = headline(v.Rivals), drawRivals(v.Rivals)
	v.Roofline = c.roofline(names, v.Tier)
	for _, f := range families {
		if s := c.section(names, f.name, f.about); len(s.Lines) > 0 {
			if f.kernel {
				v.Kernels = append(v.Kernels, s)
			} else {
				v.Jobs = append(v.Jobs, s)
			}
		}
	}
	for _, family := range unknownFamilies(names) {
		if s := c.section(names, family, ""); len(s.Lines) > 0 {
			v.Jobs = append(v.Jobs, s)
		}
	}
	v.Ceilings = c.ceilings(names)
	v.Trends = c.trends(names)
	return v
}
