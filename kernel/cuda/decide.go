package cuda

// Filters is the number of filters that a known answer may be removed by.
const Filters = 3

// PairRow is what the float64 stage knows about a query: ‖ψ‖ and its slack, a polynomial in the
// candidate's size.
type PairRow struct {
	Norm  float64
	Slack [3]float64
}

// Known is an answer that some filters remove for the query of a row: bit f for filter f.
type Known struct {
	Row, Position, Filters uint32
}

// Decide is the argument of the float64 stage.
type Decide struct {
	// Psi and Phi have rows of K float32 entries, K a multiple of 32.
	Psi, Phi Pointer
	// Rows has a PairRow for each row of Psi; Norms and Sizes (float64) are those of the candidates.
	Rows, Norms, Sizes Pointer
	// Entity is the entity (int32) in each position, Same the first entity with equal parameters.
	Entity, Same Pointer
	// First has the first target (int32) of each row, and one more; Row the row of each target.
	First, Row Pointer
	// Interval holds low, high (float64) of every target.
	Interval Pointer
	// Answer and AnswerSame are the targets' entities, and the first with equal parameters.
	Answer, AnswerSame Pointer
	// Better and Equal (int32) go up; for Known [Filters][Targets].
	Better, Equal Pointer
	// List is what Pairs decides, at most Count of Listed (uint32) pairs.
	List, Listed Pointer
	// Known is what Known decides, Count of them.
	Known Pointer
	// Rest has room for Room pairs that stay undecided. Rested (uint32) goes up by their number, even
	// beyond the room.
	Rest, Rested Pointer
	// Scored gets low, high (float64) of what is only scored.
	Scored              Pointer
	Room, Count         uint32
	K, Compare, Targets int32
	_                   int32
	// Relative bounds the error of a score; Rounding ‖ψ‖‖φ‖ + Subnormal (‖ψ‖ + ‖φ‖ + 1) that of the
	// rounding of ψ and φ to float32.
	Relative, Rounding, Subnormal float64
}

// Quantise is the argument of the kernel that makes fp16 rows.
type Quantise struct {
	// Rows has N rows of Stride float32 entries, of which Width count.
	Rows Pointer
	// Centre (float32) is taken off every row; 0 for none. Factor (float32), powers of two, then
	// multiplies each term.
	Centre, Factor Pointer
	// Out gets rows of K fp16 entries, Scales (float32) what to multiply them with.
	Out, Scales Pointer
	// Sizes gets three upper bounds (float64) for each row: the norms of the balanced row, of its
	// rounding error, and of Out times the scale.
	Sizes               Pointer
	N, Width, Stride, K int32
}

// Prepare is the argument of the kernel that makes the Rows and Ends of a screen.
type Prepare struct {
	// Psi has rows of K float32 entries, Queries a PairRow for each.
	Psi, Queries Pointer
	// Centre (float32) was taken off the candidates' rows; Scales and Sizes are what Quantise made of
	// Psi's. All are 0 for the float32 screens.
	Centre, Scales, Sizes Pointer
	// First and Interval are those of Decide.
	First, Interval Pointer
	// Rows gets N rows and, up to Padded, such as have no targets; Ends lo, hi (float32) of every target.
	Rows, Ends            Pointer
	N, Padded, K, Compare int32
	// Relative and Absolute bound the error of a screen's score, as HalfError and SingleError have it.
	Relative, Absolute float64
	// Rounding ‖ψ‖‖φ‖ + Subnormal (‖ψ‖ + ‖φ‖ + 1) bounds that of the rounding of ψ and φ to float32,
	// Centring that of ψ·Centre relative to the sum of its terms' sizes.
	Rounding, Subnormal, Centring float64
}

// Stages are the kernels around the screens.
type Stages struct {
	device                 *Device
	pairs, known, targets  *Kernel
	scores, quantise, rows *Kernel
}

// NewStages compiles them for a device.
func NewStages(d *Device) (*Stages, error) {
	s := &Stages{device: d}
	pairs, err := d.Load("pairs")
	if err != nil {
		return nil, err
	}
	quantise, err := d.Load("quantise")
	if err != nil {
		return nil, err
	}
	rows, err := d.Load("rows")
	if err != nil {
		return nil, err
	}
	for _, k := range []struct {
		to   **Kernel
		of   *Module
		name string
	}{
		{&s.pairs, pairs, "decide_pairs"}, {&s.known, pairs, "decide_known"}, {&s.targets, pairs, "score_targets"}, {&s.scores, pairs, "score_pairs"},
		{&s.quantise, quantise, "quantise"}, {&s.rows, rows, "prepare_rows"},
	} {
		if *k.to, err = k.of.Kernel(k.name, 256, 0); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Pairs decides the pairs that a screen listed, as many as Listed says on the device.
func (x *Stages) Pairs(s *Stream, a Decide) error {
	return launch(s, x.pairs, 8*x.device.Multiprocessors, 1, &a)
}

// Known decides known answers.
func (x *Stages) Known(s *Stream, a Decide) error {
	return launch(s, x.known, min((int(a.Count)+7)/8, 16*x.device.Multiprocessors), 1, &a)
}

// Targets scores Count entries of List, a target and the position of its answer, and writes the targets'
// intervals to Scored, by target.
func (x *Stages) Targets(s *Stream, a Decide) error {
	return launch(s, x.targets, min((int(a.Count)+7)/8, 16*x.device.Multiprocessors), 1, &a)
}

// Scores writes the intervals of the pairs that a screen listed to Scored, in the order of the list.
func (x *Stages) Scores(s *Stream, a Decide) error {
	return launch(s, x.scores, 8*x.device.Multiprocessors, 1, &a)
}

// Rows makes what a screen knows about queries.
func (x *Stages) Rows(s *Stream, a Prepare) error {
	return launch(s, x.rows, (int(a.Padded)+7)/8, 1, &a)
}

// Quantise makes fp16 rows.
func (x *Stages) Quantise(s *Stream, a Quantise) error {
	return launch(s, x.quantise, (int(a.N)+7)/8, 1, &a)
}
