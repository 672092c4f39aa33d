package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train"
)

// lineEvery is the time between two lines of progress if standard error is not a terminal.
const lineEvery = 10 * time.Second

// meter shows the progress of long work: a bar on a terminal, otherwise a line every lineEvery.
type meter struct {
	w        io.Writer
	terminal bool
	bar      *progressbar.ProgressBar
	nextLine time.Duration
	packing  time.Duration // time before the first pair, which does not count towards the rate
	warned   bool          // about a collapsed checkpoint
	// slow is the time after which reading a data set shows progress.
	slow time.Duration
}

func newMeter(w io.Writer) *meter {
	return &meter{w: w, terminal: text.OnTerminal(w), nextLine: lineEvery, slow: time.Second}
}

// ranking shows the progress of a ranking. It serves as rank.Options.Progress.
func (m *meter) ranking(p rank.Progress) {
	if p.Done == 0 {
		m.packing = p.Elapsed
		return
	}
	t := p.Elapsed - m.packing
	left := timeLeft(p.Done, p.Total, t)
	if !m.warned && p.Elapsed > time.Second && collapsed(p.Undecided, p.Compared) {
		m.warned = true
		m.clear()
		fmt.Fprintf(m.w, "note: %s; %s left\n", collapsedNote, left)
	}
	m.show(p.Done, p.Total, p.Elapsed, fmt.Sprintf("ranking %s pairs at %s, %s left",
		quantity(float64(p.Total)), pairRate(p.Done, t), left))
}

// fitting returns a train.Machine.Progress that shows the fitting of a clustered checkpoint.
func (m *meter) fitting() func(train.Progress) {
	start := time.Now()
	return func(p train.Progress) {
		done, total := int64(p.Epoch-1)*int64(p.Total)+int64(p.Done), int64(p.Epochs)*int64(p.Total)
		t := time.Since(start)
		m.show(done, total, t,
			fmt.Sprintf("fitting, epoch %d of %d, %s left", p.Epoch, p.Epochs, timeLeft(done, total, t)))
	}
}

// counting returns a progress function for zpattern.NewSplitValues with the given number of sides.
func (m *meter) counting(sides int) func(side int, done, total int64) {
	start, at := time.Now(), 0
	return func(side int, done, total int64) {
		if side != at {
			m.clear()
			m.nextLine = lineEvery
			start, at = time.Now(), side
		}
		t := time.Since(start)
		m.show(done, total, t, fmt.Sprintf("counting Z-patterns, side %d of %d, %s left",
			side+1, sides, timeLeft(done, total, t)))
	}
}

// reading returns a function for kg.ReportProgress that shows the progress of reading a data set,
// once or several times in succession.
func (m *meter) reading(data string) func(kg.OpenProgress) {
	var start time.Time
	return func(p kg.OpenProgress) {
		if p.Bytes == 0 && p.Lines == 0 {
			start, m.nextLine = time.Now(), lineEvery
		}
		t := time.Since(start)
		if t < m.slow {
			return
		}
		line := fmt.Sprintf("reading %s, %s lines", data, quantity(float64(p.Lines)))
		if p.Bytes > 0 && p.Total > 0 { // unknown if all files are pipes
			line += fmt.Sprintf(", %s left", timeLeft(p.Bytes, p.Total, t))
		}
		m.show(p.Bytes, max(p.Total, 1), t, line)
	}
}

// show reports that done of total items are complete after time t. line describes the work.
func (m *meter) show(done, total int64, t time.Duration, line string) {
	switch {
	case m.terminal:
		m.draw(done, total, line)
	case t >= m.nextLine:
		m.nextLine = t + lineEvery
		printLine(m.w, "%3.0f%% %s", 100*float64(done)/float64(total), line)
	}
}

func (m *meter) draw(done, total int64, line string) {
	if m.bar == nil {
		m.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(text.Unescaped(m.w)),
			progressbar.OptionShowDescriptionAtLineEnd(),
			progressbar.OptionSetPredictTime(false),
			progressbar.OptionSetElapsedTime(false),
			progressbar.OptionSetWidth(20),
			progressbar.OptionUseANSICodes(true), // clear then also removes the ^C that a terminal prints
			progressbar.OptionClearOnFinish(),
		)
	}
	m.bar.Describe(fit(text.Escape(line), text.Width(m.w)))
	_ = m.bar.Set64(done) // an error here must not end the work
}

// fit shortens the text beside a bar so that both fit on a terminal of the given width. A width of
// 0 means that the width is unknown. A longer line would wrap, and every redraw would add a line.
func fit(line string, width int) string {
	const bar, shortest = 34, 10 // columns
	runes := []rune(line)
	if most := max(width-bar, shortest); width > 0 && len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return line
}

// clear removes the bar before other lines are printed.
func (m *meter) clear() {
	if m.bar != nil {
		_ = m.bar.Clear()
		m.bar = nil
	}
}

const collapsedNote = "most candidates have almost the same score, as in a collapsed model, and need slow exact scores"

// collapsed reports whether the first stage leaves most (target, candidate) pairs undecided.
func collapsed(undecided, pairs int64) bool { return undecided > pairs/2 }

// pairRate returns a speed in pairs per second. A pair is a distinct query with a candidate.
func pairRate(pairs int64, t time.Duration) string {
	return quantity(float64(pairs)/max(t.Seconds(), 1e-9)) + " pairs/s"
}

// timeLeft estimates the remaining time, given that done of total items took the time t.
func timeLeft(done, total int64, t time.Duration) time.Duration {
	return time.Duration(float64(t) * float64(total-done) / float64(done)).Round(time.Second)
}

// quantity returns a large number with an SI prefix: 18.12 M.
func quantity(n float64) string { return strings.TrimSpace(humanize.SIWithDigits(n, 2, "")) }
