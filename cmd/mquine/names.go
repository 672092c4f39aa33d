package main

import (
	"strings"

	"github.com/mquine/mquine/train/recipe"
)

// namesHere maps flags and options of PyKEEN, LibKGE, DGL-KE, OpenKE and the RotatE repository to the
// flags of mquine with the same meaning, including the synonyms of training options. The names have
// dashes in place of underscores. unknownFlag suggests the flag of mquine if the command has it.
var namesHere = withSynonyms(map[string]string{
	"checkpoint":      "resume",
	"d":               "data",
	"dataset":         "data",
	"device":          "backend",
	"gpu":             "devices",
	"gpus":            "devices",
	"init-checkpoint": "resume",
	"metrics":         "hits",
	"model-path":      "checkpoint",
	"num-proc":        "threads",
	"num-threads":     "threads",
	"num-workers":     "threads",
	"o":               "out",
	"output":          "out",
	"save-path":       "out",
	"top-k":           "k",
	"topk":            "k",
})

// withSynonyms adds the synonyms of training options to a map from names to flags.
func withSynonyms(names map[string]string) map[string]string {
	for _, o := range new(recipe.Recipe).Options() {
		for _, name := range o.Synonyms {
			names[strings.ReplaceAll(name, "_", "-")] = o.Flag()
		}
	}
	return names
}

// chosenHere maps names of flags that rankings do not need to the reason.
var chosenHere = map[string]string{
	"batch":           "mquine chooses the batches of a ranking itself",
	"batch-size":      "mquine chooses the batches of a ranking itself",
	"eval-batch-size": "mquine chooses the batches of a ranking itself",
	"test-batch-size": "mquine chooses the batches of a ranking itself",
}

// rankedByEval lists flags that users try with compare. It compares such ranks if eval has written them to
// files.
var rankedByEval = []string{
	"ensemble", "weight", "weights", "inverse-weight", "protocol", "candidates", "tail-candidates", "head-candidates",
	"types", "candidate-type", "tail-type", "head-type", "skip-excluded", "tail-negatives", "head-negatives",
}

// commandsHere maps the commands of mquine to words that users of other tools try in their place.
// Cobra suggests the command.
var commandsHere = map[string][]string{
	"abilities": {"models"},
	"bench":     {"profile"},
	"compare":   {"diff"},
	"data":      {"dataset", "datasets", "download", "get", "list"},
	"discover":  {"predict-all"},
	"eval":      {"evaluate", "rank", "test", "valid", "validate"},
	"import":    {"convert"},
	"info":      {"describe", "inspect", "show"},
	"predict":   {"answer", "query"},
	"report":    {"plot"},
	"similar":   {"neighbors", "neighbours"},
	"train":     {"fit", "resume", "start"},
	"tune":      {"hpo", "optimise", "optimize", "search"},
}
