package recipe

// These are the names from earlier versions (docs/decisions/0023-training-options-follow-the-field.md).
// Files, command lines and the metadata of checkpoints may contain them. Recipe.Line writes them, so a
// recipe produces the same bytes in all versions.
var (
	// formerKeys maps the key of each renamed option to its former key.
	formerKeys = map[string]string{
		"init_std":     "init_deviation",
		"valid_metric": "stop_metric",
		"ema":          "average",
	}
	// formerWords maps the key of each option with renamed values to a map from former to current
	// words.
	formerWords = map[string]map[string]string{
		"negatives": {"all": string(OneVsAll)},
		"loss":      {"paper": string(NSSA)},
	}
)

// laterKeys maps the key of each option that was added after the first checkpoints to its default.
// Recipe.Line omits such an option if it has its default value.
var laterKeys = map[string]string{
	"reciprocal": "false", "inverse_weight": "0", "hyper": noHyper,
	"degree_weights": "false", "block_losses": "false", "unsquared": "false",
	"relation_weight": "0", "relation_negatives": "0",
	"max_answers": "0", "dura_products": "1", "dura_pair": "0", "orthogonality": "0", "relation_dropout": "0",
	"input_dropout": "0", "feature_map_dropout": "0", "hidden_dropout": "0",
}
