package formats

import "github.com/mquine/mquine/kg"

// OtherScores says that a tool ranks by other scores than the model's. Its ranks then differ by more than
// rounding explains.
type OtherScores struct {
	// Sides are the sides of the queries whose ranks differ.
	Sides []kg.Side
	// Reason is a clause that says which scores the tool uses.
	Reason string
}

// otherScores are the models that a tool ranks by other scores, by the name of the tool's format and the
// name of the model.
var otherScores = map[[2]string]OtherScores{
	{"dglke", "transr-l1"}: {[]kg.Side{kg.Tail},
		"DGL-KE ranks the tails of TransR by γ − ‖hM − r − tM‖₁ although its score is γ − ‖hM + r − tM‖₁; " +
			"mquine ranks by the score"},
	{"dglke", "rescal"}: {[]kg.Side{kg.Tail},
		"DGL-KE compares the score tᵀRh of each tail candidate with the answer's score hᵀRt; mquine scores both " +
			"with hᵀRt, so its ranks of tails differ"},
	{"openke", "rescal"}: {[]kg.Side{kg.Tail, kg.Head},
		"OpenKE's link prediction ranks RESCAL by ascending scores hᵀRt; mquine ranks the larger score first"},
}

// FindOtherScores returns how a tool ranks a model by other scores, or false if it does not. format is the
// name of the tool's format.
func FindOtherScores(format, model string) (OtherScores, bool) {
	o, ok := otherScores[[2]string{format, model}]
	return o, ok
}
