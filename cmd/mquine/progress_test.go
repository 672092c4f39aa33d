package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
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
		" 25% ranking 40 G pairs at 1 G pairs/s, 30s left",
		" 50% ranking 40 G pairs at 1 G pairs/s, 20s left",
		" 75% ranking 40 G pairs at 1 G pairs/s, 10s left",
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

func TestProgressBar(t *testing.T) {
	var log bytes.Buffer
	m := newMeter(&log)
	m.terminal = true
	m.ranking(rank.Progress{Total: 4e9})
	assert.Empty(t, log.String(), "nothing is known yet")
	m.ranking(rank.Progress{Done: 1e9, Total: 4e9, Compared: 1e9, Elapsed: time.Second})
	assert.Contains(t, log.String(), "25%")
	assert.Contains(t, log.String(), "ranking 4 G pairs at 1 G pairs/s, 3s left")
	m.clear()
	assert.True(t, strings.HasSuffix(log.String(), "\r"), "%q", log.String())
}

func TestFit(t *testing.T) {
	assert.Equal(t, "ranking 4 G pairs", fit("ranking 4 G pairs", 0))
	assert.Equal(t, "ranking 4 G pairs", fit("ranking 4 G pairs", 80))
	assert.Equal(t, "ranking 4 …", fit("ranking 4 G pairs", 45))
	assert.Equal(t, "ranking 4…", fit("ranking 4 G pairs", 20))
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
		assert.Equal(t, " 25% reading umls, 5 k lines, 0s left\n", log.String())
		m.slow = time.Hour
		log.Reset()
	}
	m.slow, m.nextLine = 0, 0
	report(kg.OpenProgress{Lines: 7e6}) // from a pipe of unknown length
	assert.Equal(t, "  0% reading umls, 7 M lines\n", log.String())

	log.Reset()
	m.terminal = true
	report(kg.OpenProgress{Bytes: 3e6, Total: 4e6, Lines: 15000})
	assert.Contains(t, log.String(), "75%")
	assert.Contains(t, log.String(), "reading umls, 15 k lines, 0s left")
}

func TestProgressCounting(t *testing.T) {
	var log bytes.Buffer
	m := newMeter(&log)
	m.terminal = true
	m.counting(2)(0, 1, 4)
	assert.Contains(t, log.String(), "25%")
	assert.Contains(t, log.String(), "counting Z-patterns, side 1 of 2, 0s left")
}
