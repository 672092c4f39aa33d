package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/train"
)

const (
	// lineEvery is the time between two lines of progress if standard error is not a terminal.
	lineEvery = 10 * time.Second
	// drawEvery is the time between two drawings of a bar.
	drawEvery = 100 * time.Millisecond
)

// meter shows the progress of long work. On a terminal, it redraws a line with a bar; elsewhere, it
// prints a new line every lineEvery.
type meter struct {
	w        io.Writer
	terminal bool
	// task, if not empty, precedes every line.
	task     string
	drawn    time.Time // when the bar on the terminal was drawn; zero if there is none
	nextLine time.Duration
	packing  time.Duration // time before the first pair of a ranking, which does not count towards the rate
	// earlier is the time that complete rankings took, and ranked the time of the current one so far.
	earlier, ranked time.Duration
	warned          bool // whether the note about a collapsed checkpoint was printed
	// slow is the time after which reading a data set shows progress.
	slow time.Duration
}

func newMeter(w io.Writer) *meter {
	return &meter{w: w, terminal: text.OnCapableTerminal(w), nextLine: lineEvery, slow: time.Second}
}

// ranking shows the progress of a ranking, or of several, one after another. It serves as
// rank.Options.Progress.
func (m *meter) ranking(p rank.Progress) {
	if p.Elapsed < m.ranked {
		m.earlier += m.ranked
	}
	m.ranked = p.Elapsed
	if p.Done == 0 {
		m.packing = p.Elapsed
		return
	}
	t := p.Elapsed - m.packing
	left := timeLeft(p.Done, p.Total, t)
	if !m.warned && p.Elapsed > time.Second && collapsed(p.Undecided, float64(p.Compared)) {
		m.warned = true
		m.clear()
		printNote(m.w, "%s; %s left", collapsedNote, left)
	}
	m.show(p.Done, p.Total, m.earlier+p.Elapsed, fmt.Sprintf("ranking, %s left, %s", left, pairRate(p.Done, t)))
}

// searching shows the progress of a discovery. It serves as rank.Options.Progress.
func (m *meter) searching(p rank.Progress) {
	now := p.Done - p.Earlier
	m.show(p.Done, p.Total, p.Elapsed, fmt.Sprintf("searching%s, %s",
		remaining(now, p.Total-p.Earlier, p.Elapsed), pairRate(now, p.Elapsed)))
}

// epochs returns a train.Machine.Progress that shows the epochs of work that is not a run.
func (m *meter) epochs(work string) func(train.Progress) {
	start := time.Now()
	return func(p train.Progress) {
		done, total := int64(p.Epoch-1)*int64(p.Total)+int64(p.Done), int64(p.Epochs)*int64(p.Total)
		t := time.Since(start)
		m.show(done, total, t,
			fmt.Sprintf("%s, epoch %d/%d%s", work, p.Epoch, p.Epochs, remaining(done, total, t)))
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
		m.show(done, total, t,
			fmt.Sprintf("counting Z-patterns, side %d of %d%s", side+1, sides, remaining(done, total, t)))
	}
}

// steps returns a progress function for work that consists of equal steps, such as the resamples of
// a bootstrap.
func (m *meter) steps(work string) func(done, total int) {
	start := time.Now()
	return func(done, total int) {
		t := time.Since(start)
		m.show(int64(done), int64(total), t, work+remaining(int64(done), int64(total), t))
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
		m.show(p.Bytes, p.Total, t, fmt.Sprintf("reading %s%s, %s lines", data, remaining(p.Bytes, p.Total, t),
			quantity(float64(p.Lines))))
	}
}

// downloading returns a progress function for downloads, one after another.
func (m *meter) downloading() func(address string, done, total int64) {
	var (
		start time.Time
		from  string
	)
	return func(address string, done, total int64) {
		if address != from {
			m.clear()
			start, from, m.nextLine = time.Now(), address, lineEvery
		}
		t := time.Since(start)
		m.show(done, total, t, fmt.Sprintf("downloading %s%s, %s", address[strings.LastIndex(address, "/")+1:],
			remaining(done, total, t), humanize.Bytes(uint64(max(done, 0)))))
	}
}

// show reports that done of total items are complete after time t. A total that is not positive is
// unknown. line describes the work, with the most important parts first, because a narrow terminal
// shows only its beginning.
func (m *meter) show(done, total int64, t time.Duration, line string) {
	if m.task != "" {
		line = m.task + ": " + line
	}
	share := 0.0
	if total > 0 {
		share = float64(done) / float64(total)
		line = fmt.Sprintf("%3.0f%% %s", 100*share, line)
	}
	switch {
	case m.terminal:
		m.draw(share, line)
	case t >= m.nextLine:
		m.nextLine = t + lineEvery
		printLine(m.w, "%s", line)
	}
}

// draw replaces the bar on the terminal, unless it was drawn less than drawEvery ago.
func (m *meter) draw(share float64, line string) {
	now := time.Now()
	if now.Sub(m.drawn) < drawEvery {
		return
	}
	m.drawn = now
	width := text.Width(m.w) // at every drawing, because users resize windows
	if width <= 0 {
		width = helpWidth
	}
	fmt.Fprintf(text.Unescaped(m.w), "\r%s\x1b[K", barLine(share, text.Escape(line), width))
}

// barLine returns a line with a bar, if the terminal is wide enough for one. The line leaves the
// last column free: some terminals wrap a line that fills it.
func barLine(share float64, line string, width int) string {
	bar := ""
	if columns := min(20, width/8); columns >= 8 && share > 0 {
		full := min(int(share*float64(columns)+0.5), columns)
		bar = strings.Repeat("█", full) + strings.Repeat("░", columns-full) + " "
		width -= columns + 1
	}
	return bar + text.Cut(line, width-1)
}

// clear removes the bar, and the ^C that a terminal prints, so that other lines can be printed.
func (m *meter) clear() {
	if !m.drawn.IsZero() {
		m.drawn = time.Time{}
		fmt.Fprint(text.Unescaped(m.w), "\r\x1b[K")
	}
}

const collapsedNote = "most candidates have almost the same score, as in a collapsed model, and need slow exact scores"

// collapsed reports whether the first stage leaves most (target, candidate) pairs undecided.
func collapsed(undecided int64, pairs float64) bool { return float64(undecided) > pairs/2 }

// pairRate returns a speed in pairs per second. A pair consists of a distinct query and a
// candidate.
func pairRate(pairs int64, t time.Duration) string {
	return quantity(float64(pairs)/max(t.Seconds(), 1e-9)) + " pairs/s"
}

// tripleRate returns a speed in triples per second as text, such as 79.4k tr/s.
func tripleRate(perSecond float64) string {
	x, prefix := humanize.ComputeSI(perSecond)
	return threeDigits(x) + prefix + " tr/s"
}

// threeDigits formats x with three significant digits, but with at most six decimals and, up to a million,
// with every digit before the point: 4.90, 123, 1234, 1.23e+06.
func threeDigits(x float64) string {
	switch {
	case x == 0:
		return "0"
	case math.Abs(x) >= 1e6:
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	decimals := 2
	for y := math.Abs(x); y >= 10 && decimals > 0; y /= 10 {
		decimals--
	}
	for y := math.Abs(x); y < 1 && decimals < 6; y *= 10 {
		decimals++
	}
	return strconv.FormatFloat(x, 'f', decimals, 64)
}

// remaining returns the remaining time after a comma, as in ", 3s left", or nothing before a part is done,
// or if the total is unknown, such as the bytes of pipes.
func remaining(done, total int64, t time.Duration) string {
	if done <= 0 || total <= 0 {
		return ""
	}
	return fmt.Sprintf(", %s left", timeLeft(done, total, t))
}

// timeLeft estimates the remaining time, given that done of total items took the time t.
func timeLeft(done, total int64, t time.Duration) time.Duration {
	return time.Duration(float64(t) * float64(total-done) / float64(done)).Round(time.Second)
}

// quantity returns a large number as text with an SI prefix, such as 18.12 M.
func quantity(n float64) string { return strings.TrimSpace(humanize.SIWithDigits(n, 2, "")) }
