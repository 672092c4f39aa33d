package main

import (
	"github.com/spf13/cobra"

	"github.com/mquine/mquine/kg/zpattern"
)

func newZCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "z",
		Short: "Analyse Z-patterns in a data set",
		Long: `Analyse Z-patterns in a data set: how exposed its triples are to the Z-paradox.

A Z-pattern of (h, r, t) consists of three training triples (h, r, e2),
(e3, r, e2) and (e3, r, t). It leads many models to give (h, r, t) a high score,
even if the triple is false. The Z-value n_Z of (h, r, t) is its number of
Z-patterns. Its rank_Z is the number of candidates t' such that (h, r, t') is
not in train and has a Z-value at least as large. On side head, the candidates
are heads.

A triple is easy if its rank_Z is small, hard if at least ten unobserved
candidates have a larger Z-value, and neutral otherwise.`,
	}
	cmd.AddCommand(newZStatsCommand(), newZShowCommand())
	return cmd
}

// addConvention adds the flag --convention.
func addConvention(cmd *cobra.Command, c *zpattern.Convention) {
	addChoice(cmd, c, "convention", "counting convention of Z-patterns: paper or definition (see mquine z stats)",
		zpattern.Paper, zpattern.Definition)
	inGroup(cmd, protocolFlags, "convention")
}

// casesMeaning explains the cases of a convention.
func casesMeaning(c zpattern.Convention) string {
	easy, pairs := "is at most 8", "count"
	if c == zpattern.Definition {
		easy, pairs = "is below 10", "do not count"
	}
	return "Easy: rank_Z " + easy + ". It counts the triple itself, unless that is in train.\n" +
		"Hard: at least 10 unobserved candidates have a larger n_Z. Neutral: all others.\n" +
		"Patterns with e2 = e3 " + pairs + "."
}
