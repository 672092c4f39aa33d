package main

import (
	"github.com/spf13/cobra"

	"github.com/mquine/mquine/kg/zpattern"
)

func newZCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "z",
		Short: "Tell how a data set is exposed to the Z-paradox",
		Long: `Tell how a data set is exposed to the Z-paradox.

Three training triples (h, r, e2), (e3, r, e2), (e3, r, t) push many models towards the fourth,
(h, r, t), true or not. Their number is the Z-value of (h, r, t), and rank_Z is the number of
candidates t' for which (h, r, t') is not in train and the Z-value is at least as large. A triple
is easy if few candidates are ahead of it, hard if at least ten are, and neutral otherwise. On side
head, the candidates are heads.`,
	}
	cmd.AddCommand(newZStatsCommand(), newZShowCommand())
	return cmd
}

// addConvention adds the flag --convention.
func addConvention(cmd *cobra.Command, c *zpattern.Convention) {
	addChoice(cmd, c, "convention", "how to count and divide: `name` is paper or definition", zpattern.Paper, zpattern.Definition)
}

// casesMeaning says how a convention divides the cases.
func casesMeaning(c zpattern.Convention) string {
	rule := "Easy: rank_Z is at most 8, the triple itself included."
	if c == zpattern.Definition {
		rule = "Easy: rank_Z is below 10, the triple itself included."
	}
	pairs := "Patterns with e2 = e3 count."
	if c == zpattern.Definition {
		pairs = "Patterns with e2 = e3 do not count."
	}
	return rule + " Hard: at least 10 candidates have a larger n_Z. Neutral: the others.\n" + pairs
}
