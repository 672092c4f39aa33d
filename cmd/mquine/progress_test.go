package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train"
)

func TestProgressLines(t *testing.T) {
	var log bytes.Buffer
	m := newMeter(&log)
	for s := range 36 {
		m.ranking(rank.Progress{
			Done: int64(s) * 1e9, Total: 40e9, Compared: int64(s) * 2e9, Undecided: int64(s) * 1e6,
			Elapsed: time.Duration(s) * time.Second,
		})
	}
	m.clear()
	assert.Equal(t, strings.Join([]string{
		" 25% ranking, 30s left, 1 G pairs/s",
		" 50% ranking, 20s left, 1 G pairs/s",
		" 75% ranking, 10s left, 1 G pairs/s",
		"",
	}, "\n"), log.String())
}

// Lines about many short rankings have the same distance as lines about a long one.
func TestProgressOfManyRankings(t *testing.T) {
	var log bytes.Buffer
	m := newMeter(&log)
	for range 5 {
		for s := range 5 {
			m.ranking(rank.Progress{Done: int64(s) * 1e9, Total: 5e9, Elapsed: time.Duration(s) * time.Second})
		}
		m.clear()
	}
	assert.Equal(t, " 40% ranking, 3s left, 1 G pairs/s\n 80% ranking, 1s left, 1 G pairs/s\n", log.String())
}

// The name of a task, such as "checkpoint 2 of 3", precedes each line of progress.
func TestProgressOfATask(t *testing.T) {
	var log bytes.Buffer
	m := newMeter(&log)
	m.task, m.nextLine = "checkpoint 2 of 3", 0
	m.ranking(rank.Progress{Done: 10e9, Total: 40e9, Elapsed: time.Second})
	m.task, m.nextLine = "", 0
	m.steps("resampling")(11_000, 22_000)
	assert.Equal(t, " 25% checkpoint 2 of 3: ranking, 3s left, 10 G pairs/s\n 50% resampling, 0s left\n", log.String())
}

// No time is estimated before a part of the work is done. Earlier parts of a resumed search do not count.
func TestProgressBeforeTheFirstPart(t *testing.T) {
	var log bytes.Buffer
	m := newMeter(&log)
	for _, report := range []func(){
		func() { m.steps("resampling")(0, 22_000) },
		func() { m.searching(rank.Progress{Total: 40e9, Elapsed: time.Second}) },
		func() { m.searching(rank.Progress{Done: 10e9, Total: 40e9, Elapsed: time.Second}) },
		func() { m.searching(rank.Progress{Done: 30e9, Earlier: 20e9, Total: 50e9, Elapsed: time.Second}) },
		func() { m.counting(2)(0, 0, 4) },
		func() { m.epochs("training")(train.Progress{Epoch: 1, Epochs: 3, Total: 9}) },
	} {
		m.nextLine = 0
		report()
	}
	assert.Equal(t, strings.Join([]string{
		"  0% resampling",
		"  0% searching, 0 pairs/s",
		" 25% searching, 3s left, 10 G pairs/s",
		" 60% searching, 2s left, 10 G pairs/s",
		"  0% counting Z-patterns, side 1 of 2",
		"  0% training, epoch 1/3",
		"",
	}, "\n"), log.String())
}

func TestProgressCollapsed(t *testing.T) {
	var log bytes.Buffer
	m := newMeter(&log)
	for s := range 9 {
		done := int64(s) * 1e6
		m.ranking(rank.Progress{Done: done, Total: 10e6, Compared: done, Undecided: done/2 + 1,
			Elapsed: time.Duration(s) * time.Second})
	}
	assert.Equal(t, "note: "+collapsedNote+"; 8s left\n", log.String(), "once, and with the time left")
}

// Statistics count pairs of distinct queries, except among given negatives.
func TestTargetPairs(t *testing.T) {
	large := rank.Stats{Pairs: 5e12, Queries: 4e6, UniqueQueries: 2e6}
	assert.EqualValues(t, 1e13, targetPairs(large), "5e12 · 4e6 overflows an int64")
	assert.False(t, collapsed(4e12, targetPairs(large)))
	assert.True(t, collapsed(6e12, targetPairs(large)))
	assert.Zero(t, targetPairs(rank.Stats{}))

	given := rank.Stats{Pairs: 100, Queries: 20, UniqueQueries: 10, Screen: screenNamed(t, "float64")}
	assert.EqualValues(t, 100, targetPairs(given))
}

func TestUndecidedPairs(t *testing.T) {
	for _, c := range []struct {
		screen string
		left   rank.Rescored
		want   string
	}{
		{"float32", rank.Rescored{Float64: 1234, Reference: 5}, "1,234 pairs after float32, 5 after float64"},
		{"int8", rank.Rescored{Int8: 5678, Float64: 1234, Reference: 5},
			"5,678 pairs after int8, 1,234 after fine codes, 5 after float64"},
		{"int8", rank.Rescored{}, "0 pairs after int8, 0 after float64"},
		{"float64", rank.Rescored{Reference: 1}, "1 pair after float64"},
	} {
		assert.Equal(t, c.want, undecidedPairs(rank.Stats{Screen: screenNamed(t, c.screen), Rescored: c.left}))
	}
}

// screenNamed returns a screen that statistics name, which Options may be unable to choose.
func screenNamed(t *testing.T, name string) rank.Screen {
	for s := rank.AutoScreen; s < 9; s++ {
		if s.String() == name {
			return s
		}
	}
	t.Fatalf("no screen is named %s", name)
	panic("unreachable")
}

func TestProgressBar(t *testing.T) {
	var log bytes.Buffer
	m := newMeter(&log)
	m.terminal = true
	m.ranking(rank.Progress{Total: 4e9})
	assert.Empty(t, log.String(), "nothing is known yet")
	m.ranking(rank.Progress{Done: 1e9, Total: 4e9, Compared: 1e9, Elapsed: time.Second})
	assert.Contains(t, log.String(), "25%")
	assert.Contains(t, log.String(), "ranking, 3s left, 1 G pairs/s")
	m.clear()
}

func TestBarLine(t *testing.T) {
	for _, c := range []struct {
		share float64
		line  string
		width int
		want  string
	}{
		{0.25, " 25% ranking, 3s left", 20, " 25% ranking, 3s l…"},
		{0.25, " 25% ranking, 3s left", 40, " 25% ranking, 3s left"},
		{0.25, " 25% ranking, 3s left", 64, "██░░░░░░  25% ranking, 3s left"},
		{0.5, " 50% " + strings.Repeat("x", 200), 80, "█████░░░░░  50% " + strings.Repeat("x", 62) + "…"},
		{1, "100% x", 1000, strings.Repeat("█", 20) + " 100% x"},
		{0, "reading x", 200, "reading x"},
	} {
		got := barLine(c.share, c.line, c.width)
		assert.Equal(t, c.want, got)
		assert.Less(t, utf8.RuneCountInString(got), c.width)
	}
}

// A bar is redrawn at most once per drawEvery.
func TestProgressIsSparse(t *testing.T) {
	var log bytes.Buffer
	m := newMeter(&log)
	m.terminal = true
	for i := range int64(1000) {
		m.show(i, 1000, 0, "work")
	}
	assert.Equal(t, "\r  0% work\x1b[K", log.String())
	m.clear()
	m.clear()
	assert.True(t, strings.HasSuffix(log.String(), "\x1b[K\r\x1b[K"), "%q", log.String())
}

func TestProgressReading(t *testing.T) {
	var log bytes.Buffer
	m := newMeter(&log)
	report := m.reading("umls")
	for range 2 { // two readings, one after the other
		report(kg.OpenProgress{Total: 4e6})
		report(kg.OpenProgress{Bytes: 1e6, Total: 4e6, Lines: 5000})
		assert.Empty(t, log.String(), "before it is slow, and before a line is due")
		m.slow = 0
		report(kg.OpenProgress{Bytes: 1e6, Total: 4e6, Lines: 5000})
		assert.Empty(t, log.String(), "before a line is due")
		m.nextLine = 0
		report(kg.OpenProgress{Bytes: 1e6, Total: 4e6, Lines: 5000})
		assert.Equal(t, " 25% reading umls, 0s left, 5 k lines\n", log.String())
		m.slow = time.Hour
		log.Reset()
	}
	m.slow, m.nextLine = 0, 0
	report(kg.OpenProgress{Lines: 7e6}) // from a pipe of unknown length
	assert.Equal(t, "reading umls, 7 M lines\n", log.String())

	log.Reset()
	m.terminal = true
	report(kg.OpenProgress{Bytes: 3e6, Total: 4e6, Lines: 15000})
	assert.Contains(t, log.String(), "75%")
	assert.Contains(t, log.String(), "reading umls, 0s left, 15 k lines")
}

func TestProgressCounting(t *testing.T) {
	var log bytes.Buffer
	m := newMeter(&log)
	m.terminal = true
	m.counting(2)(0, 1, 4)
	assert.Contains(t, log.String(), "25%")
	assert.Contains(t, log.String(), "counting Z-patterns, side 1 of 2, 0s left")
}

func TestThreeDigits(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 0.0123456: "0.0123", 0.5: "0.500", 4.9: "4.90", 23.14: "23.1", 123.4: "123", 12345: "12345",
		-4.9: "-4.90", 999_999: "999999", 1_234_567: "1.23e+06", -9.7052805e33: "-9.71e+33",
	} {
		assert.Equal(t, want, threeDigits(x))
	}
	assert.Equal(t, "79.4k tr/s", tripleRate(79_421))
	assert.Equal(t, "1.23M tr/s", tripleRate(1_230_000))
}
