package formats

// dura is the format of MIRALab-USTC/KGE-DURA and the forks of its code, such as KGE-ER:
//
//	config.json             the training options: "rank" is the dimension k (of complex numbers in ComplEx)
//	entity_embedding.npy    ComplEx: float32 [N, 2k], real parts first; RESCAL: [N, k]
//	relation_embedding.npy  ComplEx: [2R, 2k]; RESCAL: [2R, k²]; CP: [2R, k]; the inverse of r is r + R
//	ent_id, rel_id          lines label<TAB>id, from the folder of the data set
//
// CP has head_entity_embedding.npy and tail_entity_embedding.npy instead of entity_embedding.npy.
// The RotatE repository uses the same names for its tables, but its config.json lacks "rank".
var dura = &Format{
	Name: "dura", Tool: "KGE-DURA (MIRALab-USTC/KGE-DURA)", Protocol: "kbc",
	Files: "config.json, *_embedding.npy, ent_id, rel_id",
	Is: func(dir string) bool {
		if !exists(dir, "config.json", "relation_embedding.npy") {
			return false
		}
		f := Folder{Path: dir, Metadata: map[string]string{}}
		options, err := f.readOptions("config.json")
		return err == nil && options["rank"] != nil && options["hidden_dim"] == nil
	},
	vocabularies: []vocabularyFiles{kbcFiles},
	open: func(f *Folder) error {
		if _, err := f.readOptions("config.json"); err != nil {
			return err
		}
		for _, name := range []string{
			"entity_embedding", "head_entity_embedding", "tail_entity_embedding", "relation_embedding",
		} {
			if exists(f.Path, name+".npy") {
				if err := f.openNpy(name+".npy", name); err != nil {
					return err
				}
			}
		}
		return nil
	},
	convert: func(f *Folder) (*Converted, error) {
		var c *Converted
		var err error
		switch name := f.Metadata["model"]; name {
		case "ComplEx":
			c, err = f.kbcComplEx("entity_embedding", "relation_embedding", offset)
		case "CP":
			c, err = f.cpModel("head_entity_embedding", "tail_entity_embedding", "relation_embedding", offset)
		case "RESCAL":
			c, err = f.rescalModel("entity_embedding", "relation_embedding", offset)
		default:
			return nil, f.unsupported(name, "")
		}
		if err == nil {
			c.Dataset = f.Metadata["dataset"]
		}
		return c, err
	},
}
