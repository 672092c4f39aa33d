package catalogue

// Public copies of the data sets are in the repositories of RotatE, ConvE, CoDEx, PyKEEN and
// villmow/datasets_knowledge_embedding, and on everest.hds.utc.fr.
const (
	rotate  = "https://raw.githubusercontent.com/DeepGraphLearning/KnowledgeGraphEmbedding/master/data/"
	conve   = "https://raw.githubusercontent.com/TimDettmers/ConvE/master/"
	codex   = "https://raw.githubusercontent.com/tsafavi/codex/master/data/triples/"
	pykeen  = "https://raw.githubusercontent.com/pykeen/pykeen/master/src/pykeen/datasets/"
	villmow = "https://raw.githubusercontent.com/villmow/datasets_knowledge_embedding/master/"
	everest = "https://everest.hds.utc.fr/lib/exe/fetch.php?media="
)

func file(name string, lines int, sums ...Sum) File { return File{name, lines, sums} }

var datasets = []Dataset{
	{
		Name: "fb15k", Title: "FB15k", Entities: 14951, Relations: 1345,
		Source:  "Bordes et al., NIPS 2013 (TransE); the freebase_mtr100_mte100 release, 2013",
		Licence: "Freebase facts, CC BY 2.5",
		Files: []File{
			file("train", 483142, "sha256:f9cdfd2685f6483bd3a499d433919b15d62f0715c6cf18b2ca30c2aa5c47a704"),
			file("valid", 50000, "sha256:471929cde9cf74b1caa8348c2b601c8010d6b2f2a56bae49b4ebfd14c9bce855"),
			file("test", 59071, "sha256:5b60b4de325482c3368e22d0b7452d465b09a610fea0ce3768d8b1e8b5a7e42a"),
		},
		Origins: []string{rotate + "FB15k/", everest + "en:fb15k.tgz"},
	},
	{
		Name: "fb15k-237", Title: "FB15k-237", Entities: 14541, Relations: 237,
		Source:  "Toutanova & Chen, CVSC 2015; as packaged by TimDettmers/ConvE",
		Licence: "Freebase facts, CC BY 2.5; ConvE project: MIT",
		Files: []File{
			file("train", 272115, "sha256:61099230e4439f90885ca9767739e31e8e32f54736fa1c35952b27997bc7c08a"),
			file("valid", 17535, "sha256:749cbe9d923bac7b9354da5614ecfed2e0220256d442c3e04a6b303db1f273d9"),
			file("test", 20466, "sha256:e2e35e8e6113de220140b6f44dc71a5207b0fc6872d575e874aefe13259b655b"),
		},
		Origins: []string{rotate + "FB15k-237/", villmow + "FB15k-237/", conve + "FB15k-237.tar.gz"},
	},
	{
		Name: "wn18", Title: "WN18", Entities: 40943, Relations: 18,
		Source:  "Bordes et al., Machine Learning 2014 (SME) / NIPS 2013; the wordnet-mlj12 release",
		Licence: "WordNet 3.0 licence",
		Files: []File{
			file("train", 141442, "sha256:24c9b02dc57d3ae8ca8467ce355995edee7be8eddc3bd070ee34d3c6fc3c95eb"),
			file("valid", 5000, "sha256:13347bfb5e17d1cae003e0bfe29b4716d3ab748e8cfb6af997138d37da3a51dc"),
			file("test", 5000, "sha256:d22c19d176d4ba6a6f0d0c6bfce39ab3c16e3b20e1df6f9efe0d9ed86542fa10"),
		},
		Origins: []string{rotate + "wn18/", everest + "en:wordnet-mlj12.tar.gz"},
	},
	{
		Name: "wn18rr", Title: "WN18RR", Entities: 40943, Relations: 11,
		Source:  "Dettmers et al., AAAI 2018; TimDettmers/ConvE and DeepGraphLearning/KnowledgeGraphEmbedding",
		Licence: "WordNet 3.0 licence; both projects: MIT",
		Files: []File{
			file("train", 86835, "sha256:038612e783c215ee5f3ca9fbfca27b8d0739be1028fe4ee7c174aecf0b83d5df"),
			file("valid", 3034, "sha256:453ce7202afa58094a04d2b1560ee2b02660f1c260b32ce6651c8ccedd1028ab"),
			file("test", 3134, "sha256:0383bceaaa1096cf3c03ec021ed0048068e2355dbfc0239b292cefdac821cec5"),
		},
		Origins: []string{rotate + "wn18rr/", conve + "WN18RR.tar.gz"},
	},
	{
		Name: "yago3-10", Title: "YAGO3-10", Entities: 123182, Relations: 37,
		Source: "Dettmers et al., AAAI 2018, from YAGO3 (Mahdisoltani et al., CIDR 2015); " +
			"DeepGraphLearning/KnowledgeGraphEmbedding",
		Licence: "YAGO3, CC BY; project: MIT",
		Files: []File{
			file("train", 1079040,
				"md5:a9da8f583ec3920570eeccf07199229a", "git:1543056ff5af6d3bf841510129529e91e9a8627c"),
			file("valid", 5000, "sha256:c9018b77ec77e99f8d48bc3258d404f10b2049a6c7b4ac6eb663697e799dc6f5"),
			file("test", 5000, "sha256:003887ca8a34c90fcaf9b0250b1c30a4b5f617f80f8cf0aeab9723333061598a"),
		},
		Origins: []string{rotate + "YAGO3-10/", conve + "YAGO3-10.tar.gz"},
	},
	{
		Name: "codex-l", Title: "CoDEx-L", Entities: 77951, Relations: 69,
		Source:  "Safavi & Koutra, EMNLP 2020; tsafavi/codex",
		Licence: "MIT (tsafavi/codex); facts from Wikidata, CC0",
		Files: []File{
			file("train", 551193, "git:be8735738ba4728430922c630f25bf01bcc9eaac"),
			file("valid", 30622, "sha256:f0119a22dc663e8df4a942cde7404927935b0c42e5a8980f5fb48ac6886e416f"),
			file("test", 30622, "sha256:2d8188d6f199fc548c8e5fb97336a7ffd079240fc84c0425ed9c29d39bfdab8d"),
		},
		Origins: []string{codex + "codex-l/"},
	},
	{
		Name: "codex-m", Title: "CoDEx-M", Entities: 17050, Relations: 51,
		Source:  "Safavi & Koutra, EMNLP 2020; tsafavi/codex",
		Licence: "MIT (tsafavi/codex); facts from Wikidata, CC0",
		Files: []File{
			file("train", 185584, "sha256:d99c3437ab51690391a26d96976adf6e5494dba7ef6902e77000551bfa566556"),
			file("valid", 10310, "sha256:11c323096367354940846b9ed940c5dabddc1d20a70474222babe7e7fd28b28d"),
			file("test", 10311, "sha256:0575ce05e4ce915e395bb4f708e8df9547989dd4c8c71407cbfd78c19daffcf7"),
			file("valid_negatives", 10310, "sha256:454a4f66ae85495e6e7df0a9f591ed3b8b6efbbcca515414cb641a28625cbcb2"),
			file("test_negatives", 10311, "sha256:7caaf71f7a85fbd915dce8199f5b1e1744ead58e0675549fcb01c60599944648"),
		},
		Origins: []string{codex + "codex-m/"},
	},
	{
		Name: "codex-s", Title: "CoDEx-S", Entities: 2034, Relations: 42,
		Source:  "Safavi & Koutra, EMNLP 2020; tsafavi/codex",
		Licence: "MIT (tsafavi/codex); facts from Wikidata, CC0",
		Files: []File{
			file("train", 32888, "sha256:64f93b7f314f3936a6f65739721429db3f6a7c8f5a1e1104ec3bb544f7434f59"),
			file("valid", 1827, "sha256:3831c0e57daef03c3a18cdd1a72e370b496f696c5218883d35c7d2ab8a6a772c"),
			file("test", 1828, "sha256:27127fcb34688c4778e88a39ef3c9b540807da846021e9d9685660ac1838aca1"),
			file("valid_negatives", 1827, "sha256:c1d84860d6ee786419f1f118d0e9479c6614283b3e267afc158734389036901f"),
			file("test_negatives", 1828, "sha256:d3fb32c41f3be26d09484ace571965806f1ade0ca712551b0de684c283cdbb22"),
		},
		Origins: []string{codex + "codex-s/"},
	},
	{
		Name: "umls", Title: "UMLS", Entities: 135, Relations: 46,
		Source:  "McCray 2003; Kok & Domingos, ICML 2007; split of TimDettmers/ConvE",
		Licence: "not stated by the original authors; ConvE project: MIT",
		Files: []File{
			file("train", 5216, "sha256:873ef4925516b83e7f6f8cc02b4be51d848828710a7f65a956f0ac4a9e452f35"),
			file("valid", 652, "sha256:025c98f8a4891e2a6582ec5b40ee0d904031edad9c52554522f4b7904820c98e"),
			file("test", 661, "sha256:a7eb529a3d2810fcc96341ccc97c625a5e202f8389673aa6bd317eeebbb79014"),
		},
		Origins: []string{conve + "umls.tar.gz", pykeen + "umls/"},
	},
	{
		Name: "kinship", Title: "Kinship (Alyawarra)", Entities: 104, Relations: 25,
		Source:  "Denham 1973; Kemp et al., AAAI 2006; split of TimDettmers/ConvE",
		Licence: "not stated by the original authors; ConvE project: MIT",
		Files: []File{
			file("train", 8544, "sha256:738612111a6acf0e39662bde24c7e72a4d1edf20931beea077da367dda689731"),
			file("valid", 1068, "sha256:c56f8630a583178b1e569f11a64aa535ae1ce0b0912d8b1e24716be2b37f04da"),
			file("test", 1074, "sha256:05e5733265761d55be9c05bfaff5a8d0808df46f9c1e9d66cc3f2fe114e43d88"),
		},
		Origins: []string{conve + "kinship.tar.gz", pykeen + "kinships/"},
	},
	{
		Name: "nations", Title: "Nations", Entities: 14, Relations: 55,
		Source:  "Rummel 1950-1965; Kemp et al., AAAI 2006; split of TimDettmers/ConvE",
		Licence: "not stated by the original authors; ConvE project: MIT",
		Files: []File{
			file("train", 1592, "sha256:0830fa9da8e5bba2ccdaa45b7bdc9130451ba66b09ff2708f35fccaf82473e57"),
			file("valid", 199, "sha256:2b337a62e51a2f45c283eac98a70d21b7e0e102136be1539b2a52c652a7b0530"),
			file("test", 201, "sha256:3971085165b47b6aeaec68058c6d8d98b3005e929db81268410b95ae4db770ab"),
		},
		Origins: []string{conve + "nations.tar.gz", pykeen + "nations/"},
	},
	{
		Name: "countries-s1", Title: "Countries S1", Entities: 271, Relations: 2,
		Source: "Bouchard et al., AAAI-SS 2015; split of Nickel et al., AAAI 2016; " +
			"DeepGraphLearning/KnowledgeGraphEmbedding and TimDettmers/ConvE",
		Licence: "country facts from mledoze/countries, ODbL 1.0; both projects: MIT",
		Files: []File{
			file("train", 1111, "sha256:5256bf3fc4181d7e87d819571e3acfa5425fc5af365b9ebe5c113740534ca561"),
			file("valid", 24, "sha256:f4b27648148a44f87e627140ec3a02ca4c884c32d348591147ca72f1d6fff5b0"),
			file("test", 24, "sha256:262ca5ae5ed3aa1927026e0f258cc52b10830185b93465b93b9360727e719158"),
		},
		Origins: []string{rotate + "countries_S1/"},
	},
	{
		Name: "countries-s2", Title: "Countries S2", Entities: 271, Relations: 2,
		Source: "Bouchard et al., AAAI-SS 2015; split of Nickel et al., AAAI 2016; " +
			"DeepGraphLearning/KnowledgeGraphEmbedding and TimDettmers/ConvE",
		Licence: "country facts from mledoze/countries, ODbL 1.0; both projects: MIT",
		Files: []File{
			file("train", 1063, "sha256:84c8f310fa076f902760f0909716b13bc0853a105ab9e0145e4e5135d855f68a"),
			file("valid", 24, "sha256:f4b27648148a44f87e627140ec3a02ca4c884c32d348591147ca72f1d6fff5b0"),
			file("test", 24, "sha256:262ca5ae5ed3aa1927026e0f258cc52b10830185b93465b93b9360727e719158"),
		},
		Origins: []string{rotate + "countries_S2/"},
	},
	{
		Name: "countries-s3", Title: "Countries S3", Entities: 271, Relations: 2,
		Source: "Bouchard et al., AAAI-SS 2015; split of Nickel et al., AAAI 2016; " +
			"DeepGraphLearning/KnowledgeGraphEmbedding and TimDettmers/ConvE",
		Licence: "country facts from mledoze/countries, ODbL 1.0; both projects: MIT",
		Files: []File{
			file("train", 985, "sha256:80a8e3a26aff58b78fd5a453ec2a37591466bad621df8d05185f26763b663a0c"),
			file("valid", 24, "sha256:f4b27648148a44f87e627140ec3a02ca4c884c32d348591147ca72f1d6fff5b0"),
			file("test", 24, "sha256:262ca5ae5ed3aa1927026e0f258cc52b10830185b93465b93b9360727e719158"),
		},
		Origins: []string{rotate + "countries_S3/"},
	},
}
