package search

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPlan(t *testing.T) {
	for _, want := range []Plan{
		{Data: "umls", Seed: 1, Rungs: 3},
		{Data: "umls", Seed: 1, Rungs: 3, SameTrial: sameTrial},
		{Data: "/a b/\"c\"\u202e\u009b\x7f\n", Seed: 1<<64 - 1, Rungs: 20, Trials: 9, Budget: 90 * time.Minute},
	} {
		text, err := want.yaml()
		require.NoError(t, err)
		var got Plan
		require.NoError(t, got.read(strings.NewReader(string(text)), "x.yaml"))
		assert.Equal(t, want, got)
	}
	// Earlier versions wrote neither same_trial nor fingerprint.
	text, err := (&Plan{Data: "umls", Seed: 1, Rungs: 3, Budget: time.Hour}).yaml()
	require.NoError(t, err)
	assert.Equal(t, `# the data set: its name, or its folder
data: "umls"
# seed of the search
seed: 1
# number of rungs
rungs: 3
# largest number of trials; 0 for no limit
trials: 0
# time limit of each run of the search; 0s for no limit
budget: 1h0m0s
`, string(text))
}

func TestPlanErrors(t *testing.T) {
	whole := "data: umls\nseed: 1\nrungs: 3\ntrials: 0\nbudget: 1h\n"
	for text, want := range map[string]string{
		"": "x.yaml: data is missing (the data set: its name, or its folder): restore the file",

		"data: umls\nseed: 1\n":                 "x.yaml: rungs is missing (number of rungs): restore the file",
		whole + "seed: 2\n":                     "x.yaml:6: duplicate key seed, first on line 2",
		whole + "budgte: 2h\n":                  `x.yaml:6: unknown option "budgte": the nearest is budget`,
		whole + "same_trial: 2\n":               "x.yaml:6: same_trial \"2\": must be a whole number from 0 to 1",
		"data: [umls]\n":                        "x.yaml:1: data needs a single value",
		"data:\n":                               `x.yaml:1: data "": must be the name of a data set, or its folder`,
		"seed: -1\n":                            `x.yaml:1: seed "-1": must be a whole number from 0 to 2⁶⁴ − 1`,
		"rungs: many\n":                         `x.yaml:1: rungs "many": must be a whole number from 0 to 2147483647`,
		"trials: 1.5\n":                         `x.yaml:1: trials "1.5": must be a whole number`,
		"budget: 3600\n":                        `x.yaml:1: budget "3600": must be a time such as 90m or 2h, or 0s`,
		"budget: -1h\n":                         "x.yaml:1: budget \"-1h\": must be a time",
		"budget: {hours: 1}\n":                  "x.yaml:1: budget needs a single value",
		"- data\n":                              "x.yaml:1: this file must be a list of keys and values",
		"data: umls\nseed: [\n":                 "x.yaml:2: this is not YAML: did not find expected node content",
		strings.ReplaceAll(whole, "\n", "\n\t"): "x.yaml:2: this is not YAML: ",
	} {
		err := new(Plan).read(strings.NewReader(text), "x.yaml")
		assert.ErrorContains(t, err, want)
		assert.NotRegexp(t, `train\.|time\.|!!|unmarshal|into`, err.Error())
	}
}
