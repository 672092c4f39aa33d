package abilities

// paper holds the table of abilities in the MQuinE paper (Liu et al., 2024, section 3), by the names
// of models and patterns. The paper's columns "Sym/Asym", "Composition" and "Z-paradox" are symmetry
// and anti-symmetry, Abelian composition, and freeOfZParadox.
var paper = func() map[string]map[string]Verdict {
	columns := []string{symmetry, antisymmetry, inversion, abelian, injective, nonInjective, freeOfZParadox}
	table := map[string]map[string]Verdict{}
	row := func(marks string, models ...string) {
		verdicts := map[string]Verdict{}
		for i, name := range columns {
			verdicts[name] = map[byte]Verdict{'+': Yes, '-': No}[marks[i]]
		}
		for _, m := range models {
			table[m] = verdicts
		}
	}
	row("-++++--", "transe-l1", "transe-l2")
	row("++--+--", "transh-l1", "transh-l2", "transr-l1", "transr-l2", "transd-l1", "transd-l2")
	row("+---+-+", "distmult")
	row("+++-+-+", "complex")
	row("+++++--", "rotate", "rotate-l2")
	row("++++++-", "ote", "expressive", "mquade")
	row("+++-+++", "boxe")
	row("+++++++", "mquine")
	return table
}()
