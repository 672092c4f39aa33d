package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"golang.org/x/perf/benchmath"

	"github.com/mquine/mquine/internal/plot"
)

// contest compares rivals on one job, in one run.
type contest struct {
	Job, Commit string
	Entries     []entry // fastest first
	// Extrapolated reports whether times of rivals are extrapolated. "~" marks such times.
	Extrapolated bool
}

// entry is the result of one program: a rival or, if Own is set, mquine.
type entry struct {
	Rival, Time, Range string
	Own                bool
	Slowdown           string
	seconds            float64
	slowdown           estimate // relative to mquine
}

// estimate is a median with an interval, which contains the true median with the probability
// confidence. If there are too few values for an interval, lo and hi equal mid.
type estimate struct{ mid, lo, hi, confidence float64 }

func newEstimate(values []float64) estimate {
	s := summary(values)
	e := estimate{s.Center, s.Lo, s.Hi, s.Confidence}
	if math.IsInf(e.lo, 0) || math.IsInf(e.hi, 0) {
		e.lo, e.hi = e.mid, e.mid
	}
	return e
}

// ratio formats a slowdown with its interval.
func (e estimate) ratio() string {
	if e.lo == e.hi {
		return fmt.Sprintf("%.2f×", e.mid)
	}
	return fmt.Sprintf("%.2f× [%.2f, %.2f]", e.mid, e.lo, e.hi)
}

// median returns the median of x, or 0 if x is empty.
func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	return summary(x).Center
}

func summary(x []float64) benchmath.Summary {
	sample := benchmath.NewSample(slices.Clone(x), &benchmath.DefaultThresholds)
	return benchmath.AssumeNothing.Summary(sample, 0.95)
}

// rivals returns the comparisons with other programs, in the order of the names. Each comes from the
// newest run that contains its job.
func (c class) rivals(names []string) []contest {
	var list []contest
	own := map[string]string{}  // benchmarks of mquine by job
	run := map[string]*commit{} // newest run by job
	for _, name := range names {
		job, rival := jobOf(name)
		if rival == "mquine" {
			own[job] = name
		}
		_, from := c.latest(name, "sec/op")
		if rival != "" && slices.Index(c.commits, from) > slices.Index(c.commits, run[job]) {
			run[job] = from
		}
	}
	at := map[string]int{}
	for _, name := range names {
		job, rival := jobOf(name)
		if rival == "" || run[job] == nil || len(run[job].values[name]["sec/op"]) == 0 {
			continue
		}
		values, reference := run[job].values[name], run[job].values[own[job]]
		i, ok := at[job]
		if !ok {
			i = len(list)
			at[job] = i
			list = append(list, contest{Job: job, Commit: short(run[job].id)})
		}
		t := newEstimate(values["sec/op"])
		e := entry{
			Rival: cmp.Or(rivalTitles[rival], rival), Own: rival == "mquine", Time: seconds(t.mid), seconds: t.mid,
		}
		if t.lo < t.hi {
			e.Range = fmt.Sprintf("%s to %s (%.0f%%)", seconds(t.lo), seconds(t.hi), 100*t.confidence)
		}
		if own := median(reference["sec/op"]); own > 0 && !e.Own {
			// The median of the rounds' ratios is less noisy than the ratio of the medians.
			if ratios := values["x-mquine"]; len(ratios) > 0 {
				e.slowdown = newEstimate(ratios)
			} else {
				e.slowdown = estimate{mid: t.mid / own, lo: t.mid / own, hi: t.mid / own}
			}
			e.Slowdown = e.slowdown.ratio()
		}
		if median(values[queriesTimed]) < median(reference[queriesTimed]) {
			e.Time, list[i].Extrapolated = "~"+e.Time, true
		}
		list[i].Entries = append(list[i].Entries, e)
	}
	for _, x := range list {
		slices.SortStableFunc(x.Entries, func(a, b entry) int { return cmp.Compare(a.seconds, b.seconds) })
	}
	return list
}

// queriesTimed is the unit of the number of queries that were timed. A rival's time is extrapolated
// if it has fewer than mquine.
const queriesTimed = "queries-timed"

// jobOf returns the job of a benchmark in a comparison and the program that does it, or "" if the
// benchmark does not belong to a comparison.
func jobOf(name string) (job, rival string) {
	family, tier, rival, shape := split(name)
	return strings.TrimSpace(describe(shape) + ": " + jobTitle(family) + " " + tier), rival
}

// jobTitle describes the job of a comparison.
func jobTitle(family string) string {
	switch family {
	case "Evaluate":
		return "whole test split"
	case "TrainStep":
		return "training step"
	}
	return family
}

// headline says for each rival how many times as long as mquine it takes.
func headline(list []contest) (sentences []string) {
	type span struct {
		lo, hi float64
		jobs   int
	}
	spans := map[string]*span{}
	var order []string
	for _, x := range list {
		for _, e := range x.Entries {
			if e.slowdown.mid == 0 {
				continue
			}
			s := spans[e.Rival]
			if s == nil {
				s = &span{lo: math.Inf(1)}
				spans[e.Rival], order = s, append(order, e.Rival)
			}
			s.lo, s.hi, s.jobs = min(s.lo, e.slowdown.mid), max(s.hi, e.slowdown.mid), s.jobs+1
		}
	}
	slices.Sort(order)
	for _, rival := range order {
		s := spans[rival]
		times := fmt.Sprintf("%.1f", s.lo)
		if hi := fmt.Sprintf("%.1f", s.hi); hi != times {
			times += " to " + hi
		}
		jobs := "one job"
		if s.jobs > 1 {
			jobs = fmt.Sprintf("%d jobs", s.jobs)
		}
		sentences = append(sentences, fmt.Sprintf("%s takes %s times as long as mquine (%s).", rival, times, jobs))
	}
	return sentences
}

// drawRivals draws the slowdowns of all rivals, with a row for each job.
func drawRivals(list []contest) template.HTML {
	c := plot.Chart{
		Title: "Time relative to mquine", Horizontal: true, Width: 800,
		Y:    plot.Axis{Label: "slowdown vs mquine", Rules: []plot.Rule{{At: 1, Label: "mquine"}}},
		Note: "Medians with intervals of at least 95% over interleaved rounds. Longer bars are slower programs.",
	}
	at := map[string]int{}
	for _, x := range list {
		row := float64(len(c.X.Categories))
		drawn := false
		for _, e := range x.Entries {
			if e.slowdown.mid == 0 {
				continue
			}
			i, ok := at[e.Rival]
			if !ok {
				i = len(c.Series)
				at[e.Rival] = i
				c.Series = append(c.Series, plot.Series{Name: e.Rival, Mark: plot.Bars})
			}
			drawn = true
			c.Series[i].Points = append(c.Series[i].Points, plot.Point{
				X: row, Y: e.slowdown.mid, Lo: e.slowdown.lo, Hi: e.slowdown.hi,
				Label: fmt.Sprintf("%.2f×", e.slowdown.mid),
				Hover: fmt.Sprintf("%s, %s: %s, %s", e.Rival, x.Job, e.Time, e.Slowdown),
			})
		}
		if drawn {
			c.X.Categories = append(c.X.Categories, strings.TrimSuffix(x.Job, ": "+jobTitle("Evaluate")))
		}
	}
	if len(c.Series) == 0 {
		return ""
	}
	slices.SortStableFunc(c.Series, func(a, b plot.Series) int { return cmp.Compare(a.Name, b.Name) })
	return plot.HTML(c)
}
