package asm

// PanelArgs are the arguments of the panel kernels, which score Strips strips of MR queries against a panel
// of NR candidates (MR and NR are the numbers in a kernel's name) and count, for every target of every query,
// the candidates that are certainly better.
//
// A word is a float32 number or four codes of a byte. A coordinate takes as many words of ψ and of φ as the
// comparison says (one of each unless a kernel's comment says otherwise). The offsets of the fields are part of
// the generated code: run `go generate ./asm` after a change.
type PanelArgs struct {
	// Psi holds the words of the queries by strips, [K][MR]: word t of query i of the first strip is
	// Psi[t*MR+i]. A strip begins PsiStride words after the one before.
	Psi       *uint32
	PsiStride int
	// Phi holds the words of the candidates, [K][NR]: word t of candidate j is Phi[t*NR+j].
	Phi *uint32
	// K is the number of coordinates, Strips the number of strips; both are positive.
	K, Strips int
	// Scores, [Strips*MR][NR], 64-byte aligned, receives the scores. If Add is not 0, they are added to the
	// scores that are there.
	Scores *float32
	Add    int
	// ExitBelow, [Strips*MR] or nil, holds scores below which a final score does not matter to the query.
	// Active, [Strips], is used with it: a strip with 0 is skipped, and 0 is stored for a strip whose scores
	// are all below. Only kernels whose scores never rise with more coordinates look at the two.
	ExitBelow *float32
	Active    *uint8
	// TargetStart, [Strips*MR+1]: query i has the targets TargetStart[i] ≤ t < TargetStart[i+1]. If it is nil,
	// nothing is counted.
	TargetStart *int32
	// Thresholds, [targets][2], are the bounds lo ≤ hi of the targets. Counts[t] goes up by the number of valid
	// candidates with score > hi.
	Thresholds *float32
	Counts     *int32
	// Undecided receives a pair (t, mask) for every target with valid candidates of neither score > hi nor
	// score < lo (NaN is neither). It has room for one pair more than there are targets.
	Undecided *uint64
	// ValidLanes has bit j set if candidate j counts.
	ValidLanes uint64
	// Ahead is an address, which need not be valid: every four words of a strip, its cache line is fetched
	// into L2 and the address goes up by Step bytes.
	Ahead uintptr
	Step  int
}
