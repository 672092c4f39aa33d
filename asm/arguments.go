package asm

// PanelArgs are the arguments of the panel kernels. A kernel scores Strips strips of MR queries
// against a panel of NR candidates; its name contains MR and NR. For every target of every query,
// it counts the candidates that are certainly better than the target. docs/kernels.md describes the
// contract with an example.
//
// A word is a float32 value, four one-byte codes or two two-byte codes. The comparison determines how many words of ψ
// and of φ a coordinate has: one of each unless the comment of a kernel says otherwise. The
// generated code contains the offsets of the fields: run `go generate ./asm` after a change.
type PanelArgs struct {
	// Psi holds the words of the queries, strip by strip, [K·words][MR]: word t of query i of the
	// first strip is Psi[t*MR+i]. Each strip begins PsiStride words after the previous one.
	Psi       *uint32
	PsiStride int
	// Phi holds the words of the candidates, [K·words][NR]: word t of candidate j is Phi[t*NR+j].
	Phi *uint32
	// K is the number of coordinates, Strips the number of strips. Both are positive.
	K, Strips int
	// Scores, [Strips*MR][NR], 64-byte aligned, receives the scores. If Add is not 0, the kernel
	// adds them to the scores that are already there.
	Scores *float32
	Add    int
	// Sums, [Strips][2][MR][NR], 64-byte aligned, holds the sums of a kernel whose score combines
	// two sums. The kernel stores its sums here, added to the earlier ones if Add is not 0. It
	// stores the scores as well if ExitBelow or TargetStart is not nil. GroupNormPanel with AVX2, and
	// Int16GroupNormPanel with AVX2 or AVX-VNNI, use the first [MR][NR] as scratch memory. Other
	// kernels ignore Sums.
	Sums *float32
	// ExitBelow, [Strips*MR] or nil, holds a score per query; final scores below it do not matter.
	// The kernel skips a strip whose entry of Active, [Strips], is 0. It sets the entry to 0 if all
	// scores of the strip are below ExitBelow. Kernels whose scores may rise with more coordinates
	// ignore both fields.
	ExitBelow *float32
	Active    *uint8
	// TargetStart, [Strips*MR+1], says that query i has the targets TargetStart[i] ≤ t <
	// TargetStart[i+1]. If TargetStart is nil, the kernel counts no candidates.
	TargetStart *int32
	// Thresholds, [targets][2], holds the interval lo ≤ hi of each target. The kernel adds to
	// Counts[t] the number of valid candidates with score > hi.
	Thresholds *float32
	Counts     *int32
	// Undecided receives a pair (t, mask) for every target that has undecided candidates. They are
	// the valid candidates with neither score > hi nor score < lo, including those whose score is NaN.
	// Undecided has room for as many pairs as there are targets.
	Undecided *uint64
	// Bit j of ValidLanes is set if candidate j is valid.
	ValidLanes uint64
	// Ahead is an address to prefetch from, which need not be valid. For every four coordinates of
	// a strip, the kernel prefetches the cache line at Ahead into L2 and adds AheadStride to Ahead.
	Ahead       uintptr
	AheadStride int
	// Group is the number of coordinates in a group. Only kernels for groups of any size read it.
	Group int
}
