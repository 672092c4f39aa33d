package main

// namesHere maps flags and options of PyKEEN, LibKGE, DGL-KE, OpenKE and the RotatE repository to the
// flags of mquine with the same meaning. The names have dashes in place of underscores. unknownFlag
// suggests the flag of mquine if the command has it.
var namesHere = map[string]string{
	"batch-size":           "batch",
	"checkpoint":           "resume",
	"d":                    "data",
	"dataset":              "data",
	"device":               "backend",
	"early-stopping":       "patience",
	"embedding-dim":        "dim",
	"gpu":                  "devices",
	"gpus":                 "devices",
	"hidden-dim":           "dim",
	"init-checkpoint":      "resume",
	"label-smoothing":      "smoothing",
	"lr":                   "learning-rate",
	"m":                    "model",
	"margin":               "gamma",
	"max-epochs":           "epochs",
	"metrics":              "hits",
	"model-path":           "checkpoint",
	"neg-sample-size":      "negative-count",
	"negative-sample-size": "negative-count",
	"num-epochs":           "epochs",
	"num-negs":             "negative-count",
	"num-negs-per-pos":     "negative-count",
	"num-proc":             "threads",
	"num-threads":          "threads",
	"num-workers":          "threads",
	"o":                    "out",
	"optimizer":            "optimiser",
	"output":               "out",
	"random-seed":          "seed",
	"regularizer":          "regulariser",
	"save-path":            "out",
	"top-k":                "k",
	"topk":                 "k",
}

// chosenHere maps names of flags that rankings do not need to the reason.
var chosenHere = map[string]string{
	"batch":           "mquine chooses the batches of a ranking itself",
	"batch-size":      "mquine chooses the batches of a ranking itself",
	"eval-batch-size": "mquine chooses the batches of a ranking itself",
	"test-batch-size": "mquine chooses the batches of a ranking itself",
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
