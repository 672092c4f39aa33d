package run

import "github.com/mquine/mquine/train"

// Epoch is an epoch of a run: a line of log.jsonl.
type Epoch struct {
	train.EpochResult
	Valid        train.Scores `json:"valid,omitempty"`
	ValidSeconds float64      `json:"valid_seconds,omitempty"`
	// ProcessorSeconds is the processor time of all threads, including validation. It is 0 if the
	// system does not report it.
	ProcessorSeconds float64 `json:"processor_seconds,omitempty"`
	// Best marks epochs whose valid metric is higher than in all epochs before.
	Best bool `json:"best,omitempty"`
}
