package cuda

// PairRow describes a query to the float64 stage: ‖ψ‖, and the slack as a polynomial in the size of
// a candidate.
type PairRow struct {
	Norm  float64
	Slack [3]float64
}

// Known is a known answer to the query of a row. Bit f of Filters is set if filter f removes it.
type Known struct {
	Row, Position, Filters uint32
}

// Decide is the argument of the float64 stage.
type Decide struct {
	// Psi and Phi have rows of K float32 entries, where K is a multiple of 32.
	Psi, Phi Pointer
	// Rows has a PairRow for each row of Psi. Norms and Sizes (float64) describe the candidates.
	Rows, Norms, Sizes Pointer
	// Entity (int32) contains the entity in each position, and Same contains the first entity with
	// the same parameters.
	Entity, Same Pointer
	// TargetStart (int32) contains the first target of each row and, as a last entry, the number of
	// targets. TargetRow contains the row of each target.
	TargetStart, TargetRow Pointer
	// Interval contains the low and the high end (float64) of each target's interval.
	Interval Pointer
	// Answer contains the entity of each target, and AnswerSame contains the first entity with the
	// same parameters.
	Answer, AnswerSame Pointer
	// Better and Equal (int32) contain the counts that the kernels increment. Their shape is
	// [Targets], or [3][Targets], by filter, for Known.
	Better, Equal Pointer
	// List contains the pairs to decide. Listed (uint32) contains their number; the kernels process
	// at most Count.
	List, Listed Pointer
	// Known contains Count known answers to decide.
	Known Pointer
	// Rest has room for Room pairs and receives the pairs that stay undecided. The kernels increase
	// Rested (uint32) by the number of these pairs, even if there is not enough room.
	Rest, Rested Pointer
	// Scored receives the low and the high end (float64) of the score interval of each pair that is
	// only scored.
	Scored              Pointer
	Room, Count         uint32
	K, Compare, Targets int32
	_                   int32
	// Relative bounds the relative error of a score. Rounding ‖ψ‖‖φ‖ + Subnormal (‖ψ‖ + ‖φ‖ + 1)
	// bounds the effect of rounding ψ and φ to float32.
	Relative, Rounding, Subnormal float64
}

// Quantise is the argument of the kernel that converts rows to fp16.
type Quantise struct {
	// Rows has N rows of Stride float32 entries. The kernel reads only the first Width entries of
	// each row.
	Rows Pointer
	// Centre (float32) is subtracted from every row, unless the pointer is 0. After that, the
	// entries of a row are multiplied by the powers of two in Factor (float32).
	Centre, Factor Pointer
	// Out receives rows of K fp16 entries. Scales (float32) receives the factor that restores the
	// size of each row.
	Out, Scales Pointer
	// Sizes receives three upper bounds (float64) for each row: the norm of the centred and
	// balanced row, the norm of its rounding error, and the norm of the row of Out times its scale.
	Sizes               Pointer
	N, Width, Stride, K int32
}

// Prepare is the argument of the kernel that computes the Rows and Ends of a screen.
type Prepare struct {
	// Psi has rows of K float32 entries, and Queries has a PairRow for each row.
	Psi, Queries Pointer
	// Centre (float32) is the centre of the candidates. Scales and Sizes are the results of
	// Quantise for Psi. All three pointers are 0 for the float32 screens.
	Centre, Scales, Sizes Pointer
	// TargetStart and Interval are as in Decide.
	TargetStart, Interval Pointer
	// Rows receives Padded Rows: one for each of the N queries, followed by Rows without targets.
	// Ends receives lo and hi (float32) of every target.
	Rows, Ends            Pointer
	N, Padded, K, Compare int32
	// Relative and Absolute bound the error of a score of the screen. HalfError and SingleError
	// return them.
	Relative, Absolute float64
	// Rounding ‖ψ‖‖φ‖ + Subnormal (‖ψ‖ + ‖φ‖ + 1) bounds the effect of rounding ψ and φ to float32.
	// Centring bounds the error of ψ·Centre relative to the sum of the magnitudes of its terms.
	Rounding, Subnormal, Centring float64
}

// Stages holds the kernels that run before and after the screens.
type Stages struct {
	device                 *Device
	pairs, known, targets  *function
	scores, quantise, rows *function
}

// NewStages compiles the kernels for a device.
func NewStages(d *Device) (*Stages, error) {
	s := &Stages{device: d}
	pairs, err := d.load("pairs")
	if err != nil {
		return nil, err
	}
	quantise, err := d.load("quantise")
	if err != nil {
		return nil, err
	}
	rows, err := d.load("rows")
	if err != nil {
		return nil, err
	}
	for _, k := range []struct {
		to   **function
		of   *module
		name string
	}{
		{&s.pairs, pairs, "decide_pairs"}, {&s.known, pairs, "decide_known"},
		{&s.targets, pairs, "score_targets"}, {&s.scores, pairs, "score_pairs"},
		{&s.quantise, quantise, "quantise"}, {&s.rows, rows, "prepare_rows"},
	} {
		if *k.to, err = k.of.function(k.name, 256, 0); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Pairs decides the pairs that a screen listed. It reads the number of pairs from Listed on the
// device.
func (x *Stages) Pairs(s *Stream, a Decide) {
	launch(s, x.pairs, 8*x.device.Multiprocessors, 1, a)
}

// Known decides known answers.
func (x *Stages) Known(s *Stream, a Decide) {
	launch(s, x.known, min((int(a.Count)+7)/8, 16*x.device.Multiprocessors), 1, a)
}

// Targets scores Count entries of List. Each entry is a target and the position of its answer.
// Targets writes the interval of target t to Scored[t].
func (x *Stages) Targets(s *Stream, a Decide) {
	launch(s, x.targets, min((int(a.Count)+7)/8, 16*x.device.Multiprocessors), 1, a)
}

// Scores scores the pairs that a screen listed and writes their intervals to Scored, in the order
// of List.
func (x *Stages) Scores(s *Stream, a Decide) {
	launch(s, x.scores, 8*x.device.Multiprocessors, 1, a)
}

// Rows computes the Rows and Ends of a screen.
func (x *Stages) Rows(s *Stream, a Prepare) {
	launch(s, x.rows, (int(a.Padded)+7)/8, 1, a)
}

// Quantise converts rows to fp16.
func (x *Stages) Quantise(s *Stream, a Quantise) {
	launch(s, x.quantise, (int(a.N)+7)/8, 1, a)
}
