package recipe

// synonyms maps keys of options to names with the same meaning in PyKEEN, LibKGE, DGL-KE, OpenKE and the
// RotatE repository. The names have underscores in place of dashes. Messages about unknown options
// suggest the key.
var synonyms = map[string][]string{
	"batch":          {"batch_size"},
	"dim":            {"embedding_dim", "hidden_dim"},
	"epochs":         {"max_epochs", "num_epochs"},
	"gamma":          {"margin"},
	"learning_rate":  {"lr"},
	"model":          {"m"},
	"negative_count": {"neg_sample_size", "negative_sample_size", "num_negs", "num_negs_per_pos"},
	"optimiser":      {"optimizer"},
	"patience":       {"early_stopping"},
	"regulariser":    {"regularizer"},
	"seed":           {"random_seed"},
	"smoothing":      {"label_smoothing"},
}
