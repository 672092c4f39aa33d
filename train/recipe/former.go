package recipe

// Names of earlier versions (docs/decisions/0023-training-options-follow-the-field.md). Files,
// command lines and the metadata of checkpoints may have them. Recipe.Line writes them, so that a
// recipe gives the same bytes in all versions.
var (
	// formerKeys has the former key of each option that was renamed.
	formerKeys = map[string]string{
		"init_std":     "init_deviation",
		"valid_metric": "stop_metric",
		"ema":          "average",
	}
	// formerWords has, for each option whose values were renamed, the current word for each former
	// one.
	formerWords = map[string]map[string]string{
		"negatives": {"all": string(OneVsAll)},
		"loss":      {"paper": string(NSSA)},
	}
)
