package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// weather makes measurements as a shared machine gives them: a level that drifts slowly and jumps
// now and then, which hits all that is measured in one round, noise of each pass, and bursts that
// make single passes much slower.
type weather struct {
	rng          *rand.Rand
	drift, noise float64
	bursts       float64 // probability

	level float64
}

func (w *weather) round() {
	w.level += w.drift * w.rng.NormFloat64()
	if w.rng.Float64() < 0.05 {
		w.level += 0.1 * w.rng.NormFloat64()
	}
}

const passes = 6

func (w *weather) pass(factor float64) float64 {
	t := factor * math.Exp(w.level+w.noise*w.rng.NormFloat64())
	if w.rng.Float64() < w.bursts {
		t *= 1 + w.rng.ExpFloat64()
	}
	return t
}

// rounds measures base, head and control; head takes factor times as long as base.
func (w *weather) rounds(n int, factor float64) (base, head, control []Point) {
	for r := 1; r <= n; r++ {
		w.round()
		for range passes {
			base = append(base, Point{w.pass(1), r})
			head = append(head, Point{w.pass(factor), r})
			control = append(control, Point{w.pass(1), r})
		}
	}
	return base, head, control
}

func tally(w weather, trials, rounds int, factor float64) map[Verdict]float64 {
	count := map[Verdict]float64{}
	for i := range trials {
		w.rng, w.level = rand.New(rand.NewPCG(uint64(i), 7)), 0
		base, head, control := w.rounds(rounds, factor)
		count[Judge(base, head, control, DefaultMinEffect).Verdict] += 1 / float64(trials)
	}
	return count
}

// TestVerdicts draws many comparisons. Whatever the noise, a revision that is as fast is called
// faster or slower in less than one in twenty; where there is little, a change is found, and so is
// its absence.
func TestVerdicts(t *testing.T) {
	const trials, rounds = 400, 10
	quiet := weather{drift: 0.01, noise: 0.005, bursts: 0.02}
	busy := weather{drift: 0.05, noise: 0.02, bursts: 0.1}
	storm := weather{drift: 0.2, noise: 0.15, bursts: 0.3}
	for _, w := range []weather{quiet, busy, storm} {
		same := tally(w, trials, rounds, 1)
		t.Log(w.noise, same)
		assert.Less(t, same[Faster]+same[Slower], 0.01)
		changed := tally(w, trials, rounds, 1.05)
		t.Log(w.noise, "5% slower", changed)
		assert.Less(t, changed[Faster]+changed[Same], 0.02)
	}
	assert.Greater(t, tally(quiet, trials, rounds, 1)[Same], 0.9)
	assert.Greater(t, tally(quiet, trials, rounds, 1.05)[Slower], 0.95)
	assert.Greater(t, tally(quiet, trials, rounds, 1/1.05)[Faster], 0.95)
	assert.Greater(t, tally(busy, trials, rounds, 1.05)[Slower], 0.8)
	assert.Greater(t, tally(busy, trials, 2*rounds, 1.05)[Slower], 0.95, "more rounds help")
	edge := tally(quiet, trials, rounds, 1+DefaultMinEffect)
	assert.Less(t, edge[Same]+edge[Slower], 0.1, "at the edge there is nothing to say")
}

// TestPairingCancelsDrift: the same points without rounds tell nothing.
func TestPairingCancelsDrift(t *testing.T) {
	w := weather{rng: rand.New(rand.NewPCG(1, 1)), drift: 0.1, noise: 0.003}
	base, head, control := w.rounds(10, 1.05)
	j := Judge(base, head, control, DefaultMinEffect)
	assert.Equal(t, Slower, j.Verdict)
	assert.Equal(t, 10, j.Rounds)
	assert.InDelta(t, 1.05, j.Ratio.Center, 0.01)
	apart := func(points []Point) []Point {
		out := make([]Point, len(points))
		for i, p := range points {
			out[i].Value = p.Value
		}
		return out
	}
	j = Judge(apart(base), apart(head), apart(control), DefaultMinEffect)
	assert.Equal(t, Inconclusive, j.Verdict)
	assert.Zero(t, j.Rounds)
	assert.NotEmpty(t, j.Why)
}

// TestRule checks the rule on points that leave no doubt.
func TestRule(t *testing.T) {
	points := func(values ...float64) (p []Point) {
		for i := range 10 {
			p = append(p, Point{values[i%len(values)], i + 1})
		}
		return p
	}
	one := points(1)
	for _, test := range []struct {
		name          string
		head, control []Point
		want          Verdict
	}{
		{"equal", one, one, Same},
		{"within the effect", points(1.01), one, Same},
		{"beyond it", points(1.03), one, Slower},
		{"beyond it", points(0.97), one, Faster},
		{"as much as the control", points(1.05), points(1.04), Inconclusive},
		{"more than the control", points(1.1), points(1.04), Slower},
		{"equal, but the control is not", points(1.015), points(1.03), Inconclusive},
		{"an interval across", points(1.0, 1.04), one, Inconclusive},
		{"no control", points(1.03), nil, Slower},
	} {
		j := Judge(one, test.head, test.control, DefaultMinEffect)
		assert.Equal(t, test.want, j.Verdict, test.name)
		assert.Equal(t, j.Verdict == Inconclusive, j.Why != "", test.name)
	}
	few := one[:4]
	assert.Equal(t, Inconclusive, Judge(few, few, few, DefaultMinEffect).Verdict)
	assert.Contains(t, Judge(few, few, few, DefaultMinEffect).Why, "too few")
}

// TestRatioOfMedians checks the interval of unpaired points: it holds the true ratio in at least 95
// of 100 cases.
func TestRatioOfMedians(t *testing.T) {
	const trials = 2000
	inside := 0
	for i := range trials {
		rng := rand.New(rand.NewPCG(uint64(i), 3))
		draw := func(factor float64) (p []Point) {
			for range 12 {
				p = append(p, Point{Value: factor * math.Exp(0.05*rng.NormFloat64())})
			}
			return p
		}
		r, rounds := ratio(draw(1), nil, draw(1.2))
		require.Zero(t, rounds)
		if r.Lo <= 1.2 && 1.2 <= r.Hi {
			inside++
		}
	}
	assert.Greater(t, inside, trials*95/100)
}
