package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// machine simulates measurements on a shared machine. All passes of a round share a level, which
// drifts and sometimes jumps between rounds. Each pass has noise, and bursts make single passes
// much slower.
type machine struct {
	rng          *rand.Rand
	drift, noise float64
	bursts       float64 // probability

	level float64
}

func (m *machine) round() {
	m.level += m.drift * m.rng.NormFloat64()
	if m.rng.Float64() < 0.05 {
		m.level += 0.1 * m.rng.NormFloat64()
	}
}

const passes = 6

func (m *machine) pass(factor float64) float64 {
	t := factor * math.Exp(m.level+m.noise*m.rng.NormFloat64())
	if m.rng.Float64() < m.bursts {
		t *= 1 + m.rng.ExpFloat64()
	}
	return t
}

// rounds simulates n rounds of base, head and control. A run of head takes factor times as long as
// a run of base.
func (m *machine) rounds(n int, factor float64) (base, head, control []point) {
	for r := 1; r <= n; r++ {
		m.round()
		for range passes {
			base = append(base, point{m.pass(1), r})
			head = append(head, point{m.pass(factor), r})
			control = append(control, point{m.pass(1), r})
		}
	}
	return base, head, control
}

// tally returns the share of each verdict in the given number of trials.
func tally(m machine, trials, rounds int, factor float64) map[Verdict]float64 {
	count := map[Verdict]float64{}
	for i := range trials {
		m.rng, m.level = rand.New(rand.NewPCG(uint64(i), 7)), 0
		base, head, control := m.rounds(rounds, factor)
		count[judge(base, head, control, DefaultMinEffect).Verdict] += 1 / float64(trials)
	}
	return count
}

// TestVerdicts simulates many comparisons. At every level of noise, equal revisions are rarely
// called faster or slower. With little noise, a change is detected, and so is the absence of a
// change.
func TestVerdicts(t *testing.T) {
	const trials, rounds = 400, 10
	quiet := machine{drift: 0.01, noise: 0.005, bursts: 0.02}
	busy := machine{drift: 0.05, noise: 0.02, bursts: 0.1}
	stormy := machine{drift: 0.2, noise: 0.15, bursts: 0.3}
	for _, m := range []machine{quiet, busy, stormy} {
		same := tally(m, trials, rounds, 1)
		t.Log(m.noise, same)
		assert.Less(t, same[Faster]+same[Slower], 0.01)
		changed := tally(m, trials, rounds, 1.05)
		t.Log(m.noise, "5% slower", changed)
		assert.Less(t, changed[Faster]+changed[Same], 0.02)
	}
	assert.Greater(t, tally(quiet, trials, rounds, 1)[Same], 0.9)
	assert.Greater(t, tally(quiet, trials, rounds, 1.05)[Slower], 0.95)
	assert.Greater(t, tally(quiet, trials, rounds, 1/1.05)[Faster], 0.95)
	assert.Greater(t, tally(busy, trials, rounds, 1.05)[Slower], 0.8)
	assert.Greater(t, tally(busy, trials, 2*rounds, 1.05)[Slower], 0.95, "more rounds help")
	edge := tally(quiet, trials, rounds, 1+DefaultMinEffect)
	assert.Less(t, edge[Same]+edge[Slower], 0.1, "a change as large as the minimum effect is inconclusive")
}

// TestPairingCancelsDrift checks that rounds give a verdict on points that are inconclusive without
// rounds.
func TestPairingCancelsDrift(t *testing.T) {
	m := machine{rng: rand.New(rand.NewPCG(1, 1)), drift: 0.1, noise: 0.003}
	base, head, control := m.rounds(10, 1.05)
	j := judge(base, head, control, DefaultMinEffect)
	assert.Equal(t, Slower, j.Verdict)
	assert.Equal(t, 10, j.Rounds)
	assert.InDelta(t, 1.05, j.Ratio.Center, 0.01)
	apart := func(points []point) []point {
		out := make([]point, len(points))
		for i, p := range points {
			out[i].Value = p.Value
		}
		return out
	}
	j = judge(apart(base), apart(head), apart(control), DefaultMinEffect)
	assert.Equal(t, Inconclusive, j.Verdict)
	assert.Zero(t, j.Rounds)
	assert.NotEmpty(t, j.Why)
}

// TestRule checks the verdicts on points without noise.
func TestRule(t *testing.T) {
	points := func(values ...float64) (p []point) {
		for i := range 10 {
			p = append(p, point{values[i%len(values)], i + 1})
		}
		return p
	}
	one := points(1)
	for _, test := range []struct {
		name          string
		head, control []point
		want          Verdict
	}{
		{"equal", one, one, Same},
		{"within the effect", points(1.01), one, Same},
		{"slower than the effect", points(1.03), one, Slower},
		{"faster than the effect", points(0.97), one, Faster},
		{"a little more than the control", points(1.05), points(1.04), Inconclusive},
		{"much more than the control", points(1.1), points(1.04), Slower},
		{"within the effect, but the control is not", points(1.015), points(1.03), Inconclusive},
		{"an interval that contains the effect", points(1.0, 1.04), one, Inconclusive},
		{"no control", points(1.03), nil, Slower},
	} {
		j := judge(one, test.head, test.control, DefaultMinEffect)
		assert.Equal(t, test.want, j.Verdict, test.name)
		assert.Equal(t, j.Verdict == Inconclusive, j.Why != "", test.name)
	}
	few := one[:4]
	assert.Equal(t, Inconclusive, judge(few, few, few, DefaultMinEffect).Verdict)
	assert.Contains(t, judge(few, few, few, DefaultMinEffect).Why, "too few")
}

// TestRatioOfMedians checks that the interval of unpaired points contains the true ratio in more
// than 95% of the trials.
func TestRatioOfMedians(t *testing.T) {
	const trials = 2000
	inside := 0
	for i := range trials {
		rng := rand.New(rand.NewPCG(uint64(i), 3))
		draw := func(factor float64) (p []point) {
			for range 12 {
				p = append(p, point{Value: factor * math.Exp(0.05*rng.NormFloat64())})
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

// Values may be 0, as counts of allocations are, and ratios may be infinite.
func TestZeros(t *testing.T) {
	inf := math.Inf(1)
	points := func(paired bool, values ...float64) (p []point) {
		for i := range 10 {
			p = append(p, point{Value: values[i%len(values)]})
			if paired {
				p[i].Round = i + 1
			}
		}
		return p
	}
	for _, test := range []struct {
		base, head       []float64
		paired, unpaired float64 // ratios
		want             Verdict
	}{
		{[]float64{0}, []float64{0}, 1, 1, Same},
		{[]float64{0}, []float64{7}, inf, inf, Slower},
		{[]float64{7}, []float64{0}, 0, 0, Faster},
		{[]float64{0, 0, 0, 0, 1}, []float64{7}, inf, inf, Slower},
		{[]float64{0, 1}, []float64{1}, inf, 2, Inconclusive},
		{[]float64{0, 1}, []float64{1, 0}, inf, 1, Inconclusive},
		{[]float64{1, 1, 1, 1, 0}, []float64{1}, 1, 1, Inconclusive},
	} {
		j := judge(points(true, test.base...), points(true, test.head...), nil, DefaultMinEffect)
		assert.Equal(t, test.paired, j.Ratio.Center, "%v", test)
		assert.Equal(t, 10, j.Rounds, "%v", test)
		assert.Equal(t, test.want, j.Verdict, "%v: %s", test, j.Why)
		j = judge(points(false, test.base...), points(false, test.head...), nil, DefaultMinEffect)
		assert.Equal(t, test.unpaired, j.Ratio.Center, "%v", test)
		assert.Equal(t, test.want, j.Verdict, "%v: %s", test, j.Why)
		assert.NotContains(t, j.Why, "too few")
	}
	zeros := points(true, 0)
	assert.Equal(t, Slower, judge(zeros, points(true, 7), zeros, DefaultMinEffect).Verdict)
	assert.Equal(t, Inconclusive, judge(zeros, zeros, points(true, 7), DefaultMinEffect).Verdict, "the control")
}
