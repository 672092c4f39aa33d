package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/model"
)

func TestWrongUsage(t *testing.T) {
	eval := []string{"eval", "m", "--data", "d"}
	predict := []string{"predict", "m", "--data", "d"}
	with := func(args []string, more ...string) []string { return append(args[:len(args):len(args)], more...) }
	for _, test := range []struct {
		args     []string
		sentence string
	}{
		{with(eval, "--profile", "heap"), `--profile "heap": choose from cpu, mem, block and trace`},
		{[]string{"evla", "m"},
			`mquine: unknown command "evla" for "mquine"; did you mean eval (see mquine --help)`},
		{[]string{"evaluate", "m"}, `unknown command "evaluate" for "mquine"; did you mean eval (see`},
		{[]string{"models"}, `unknown command "models" for "mquine"; did you mean abilities (see`},
		{[]string{"help", "evla"}, `mquine help: unknown command "evla" for "mquine"; did you mean eval (see`},
		{[]string{"help", "data", "bogus"}, `mquine help: unknown command "bogus" for "mquine data" (see`},
		{[]string{"--xyz"}, "mquine: unknown flag --xyz (see mquine --help)"},
		{[]string{"eval"},
			"mquine eval: give a checkpoint, as in: mquine eval CKPT --data NAME (see mquine eval --help)"},
		{[]string{"score"}, "give a checkpoint, as in: mquine score CKPT --in FILE (see"},
		{[]string{"predict"}, "give a checkpoint, as in: mquine predict CKPT --data NAME --head X --relation R (see"},
		{[]string{"score", "m", "--ensemble", "equal"}, "give the checkpoints of the ensemble as arguments, at least " +
			"two, as in: mquine score CKPT CKPT --ensemble equal --in FILE (see"},
		{[]string{"eval", "m"}, "--data is missing"},
		{[]string{"eval", "--chekpoint", "m"}, "unknown flag --chekpoint; did you mean --checkpoint"},
		{[]string{"train", "--lr", "1"}, "unknown flag --lr; did you mean --learning-rate"},
		{[]string{"train", "--batch_size=3"}, "unknown flag --batch_size; did you mean --batch"},
		{[]string{"eval", "--batch-size", "3"}, "unknown flag --batch-size: leave it out, mquine chooses the batches"},
		{[]string{"eval", "--metrics", "mrr"}, "unknown flag --metrics; did you mean --hits"},
		{[]string{"train", "--modle", "m"}, "unknown flag --modle; did you mean --model"},
		{[]string{"predict", "--topk", "3"}, "unknown flag --topk; did you mean -k"},
		{[]string{"predict", "-o", "x"}, "unknown flag -o (see"},
		{[]string{"train", "-o", "x"}, "unknown flag -o; did you mean --out"},
		{[]string{"eval", "--early-stopping"}, "unknown flag --early-stopping (see"},
		{[]string{"init", "--gamma", "x"}, `--gamma "x": must be a number`},
		{[]string{"eval", "m", "--checkpoint", "m"}, "the checkpoint is given twice"},
		{[]string{"eval", "-z"}, "unknown flag -z"},
		{[]string{"eval", "m", "--data"}, "--data needs a value"},
		{with(eval, "more"), `unexpected argument "more"`},
		{with(eval, "--split", "tst"), `--split "tst": choose from train, valid and test`},
		{with(eval, "--side", "left"), `--side "left": choose from tail, head, both and relation`},
		{with(eval, "--filter", "Raw"), `--filter "Raw": choose from none, train and all; "Raw" is none here`},
		{[]string{"compare", "a", "b", "--data", "d", "--filter", "filtered"}, `train and all; "filtered" is all here`},
		{[]string{"score", "m", "aspirin", "treats", "--data", "d"},
			`unexpected argument "aspirin", which is not a file or folder: give labels with --head, --relation and`},
		{[]string{"discover", "m", "m2", "--data", "d"}, `unexpected argument "m2": to use the sum of the scores of`},
		{with(eval, "--filter", "none,some"), `--filter "none,some": choose from none, train and all`},
		{with(eval, "--filter", ""), `--filter "": choose from`},
		{with(eval, "--filter", "all,All"), "all is given twice"},
		{with(eval, "--protocol", "PyKEEN", "--ties", "Optimistic"), "--protocol pykeen sets the sides"},
		{with(eval, "--ties", "none"), `--ties "none": choose from optimistic, pessimistic, realistic and rounded`},
		{with(eval, "--protocol", "rotat"), `--protocol "rotat": choose from full, rotate, kbc, dglke, libkge, ` +
			"pykeen, openke, ogb and paper"},
		{with(eval, "--protocol", "rotate", "--side", "both"),
			"--protocol rotate sets the sides, filters and ties: leave out --side"},
		{with(eval, "--protocol", "rotate", "--filter", "all"), "leave out --filter"},
		{with(eval, "--ties", "optimistic", "--protocol", "rotate"), "leave out --ties"},
		{with(eval, "--min", "5"), "--min applies to groups of queries: add --by"},
		{[]string{"compare", "a", "b", "--data", "d", "--top", "5"}, "--top applies to groups of queries: add --by"},
		{with(eval, "--convention", "paper"), "--convention applies to groups by z-case: add --by z-case, or leave"},
		{[]string{"compare", "a", "b", "--data", "d", "--by", "category", "--convention", "paper"},
			"--convention applies to groups by z-case: add --by z-case, or leave"},
		{with(eval, "--protocol", "pykeen", "--all-ties"), "--protocol pykeen has one tie rule: leave out --all-ties"},
		{with(eval, "--format", "latex", "--explain"), "--explain does not apply to --format latex: leave out one"},
		{[]string{"compare", "a", "b", "--data", "d", "--format", "latex", "--explain"},
			"--explain does not apply to --format latex: leave out one of them"},
		{with(eval, "--format", "latex", "--all-ties"), "--all-ties does not apply to --format latex: add --json FILE"},
		{[]string{"compare", "a", "b", "--data", "d", "--format", "latex", "--changed", "3"},
			"--changed does not apply to --format latex: add --json FILE, or leave out one of them"},
		{[]string{"compare", "a", "b", "--data", "d", "--format", "csv", "--changed", "3"},
			"--changed does not apply to --format csv: add"},
		{with(eval, "--format", "csv", "--explain"), "--explain changes tables, not CSV: leave it out"},
		{with(eval, "--format", "json", "--percent"), "--percent changes tables, not JSON: leave it out"},
		{[]string{"compare", "a", "b", "--data", "d", "--by", "degree", "--format", "csv", "--top", "3"},
			"--top changes tables, not CSV: leave it out"},
		{[]string{"classify", "m", "--data", "d", "--format", "csv", "--relations", "--top", "1"},
			"--relations changes tables, not CSV: leave it out"},
		{[]string{"classify", "m", "--data", "d", "--format", "json", "--top", "1"},
			"--top changes tables, not JSON: leave it out"},
		{[]string{"z", "stats", "--data", "d", "--format", "csv", "--relations"},
			"--relations changes tables, not CSV: leave it out"},
		{[]string{"predict", "m", "--data", "d", "--in", "f", "--format", "csv", "--json", "-"},
			"--json - prints JSON instead of --format csv: leave out one of them, or name a file for --json"},
		{[]string{"tune", "--resume", "d", "--format", "table", "--json", "-"}, "instead of --format table: leave out"},
		{[]string{"data", "info", "d", "--json", "-", "--format", "latex"}, "instead of --format latex: leave out"},
		{with(eval, "--format", "csv", "--peak"), "--format csv does not show what --peak measures: add --json FILE"},
		{[]string{"discover", "m", "--data", "d", "--out", "-", "--format", "json"},
			"--out - prints tab-separated lines: leave out --out or --format"},
		{[]string{"classify", "m", "--data", "d", "--plot", "c.png"}, "--plot writes SVG; choose a name that ends"},
		{[]string{"classify", "m", "--data", "d", "--top", "5"}, "--top applies to the table of relations: add"},
		{[]string{"z", "stats", "--data", "d", "--plot", "z.PDF.gz"}, "--plot writes SVG; choose a name that"},
		{[]string{"discover", "m", "--data", "d", "--out", "d.parquet.gz"}, "Parquet compresses its columns; choose"},
		{[]string{"discover", "m", "--data", "d", "--out", "d.CSV.gz"},
			"--out d.CSV.gz: --out writes tab-separated lines or Parquet; choose a name that ends with .tsv or "},
		{[]string{"eval", "m", "--data", "d", "--ranks", "r.csv"},
			"--ranks r.csv: --ranks writes tab-separated lines; choose a name that ends with .tsv"},
		{[]string{"classify", "m", "--data", "d", "--predictions", "p.parquet"}, "--predictions writes tab-separated"},
		{[]string{"z", "stats", "--data", "d", "--tsv", "z.json"}, "--tsv z.json: --tsv writes tab-separated lines"},
		{[]string{"discover", "m", "--data", "d", "--out", "d.json"}, "--out writes tab-separated lines or Parquet"},
		{[]string{"discover", "m", "--data", "d", "--out", "d.png"}, "ends with .tsv or .parquet (see mquine discover"},
		{[]string{"report", "r", "--out", "train.tsv"}, "--out train.tsv: --out writes an HTML page; choose a name"},
		{[]string{"report", "r", "--out", "r.pdf"}, "--out writes an HTML page; choose a name that ends with .html"},
		{[]string{"bench", "report", "--out", "r.json"}, "--out writes an HTML page; choose"},
		{[]string{"eval", "m", "--data", "d", "--json", "train.txt"},
			"--json train.txt: --json writes JSON; choose a name that ends with .json"},
		{[]string{"classify", "m", "--data", "d", "--calibration", "c.TSV"}, "--calibration writes JSON; choose"},
		{[]string{"z", "stats", "--data", "d", "--plot", "z.tsv"}, "--plot z.tsv: --plot writes SVG; choose a name"},
		{with(eval, "--by", "hub"), `--by "hub": choose from relation, entity, category, z-case and degree`},
		{with(eval, "--hits", "1,0"), `--hits "1,0": must be whole numbers from 1`},
		{with(eval, "--hits", "3,3"), "3 is given twice"},
		{with(eval, "--hits", "x"), "must be whole numbers"},
		{with(eval, "--backend", "sse"), `--backend "sse": choose from auto, cuda, avx512, avx2 and generic`},
		{with(eval, "--threads", "0"), `--threads "0": must be a whole number of at least 1`},
		{with(eval, "--threads", "1e9"), "must be a whole number"},
		{with(eval, "--threads", "1000000"), "must be at most 4096"},
		{with(eval, "--threads", "99999999999999999999"), "must be at most 4096"},
		{with(eval, "--threads", "-99999999999999999999"), "must be a whole number of at least 1"},
		{with(eval, "--hits", "2147483648"),
			`--hits "2147483648": must be whole numbers from 1 to 2147483647, separated by commas`},
		{with(eval, "--devices", "65536"), "must be GPU numbers from 0 to 65535"},
		{with(predict, "-k", "1000000000000"), `-k "1000000000000": must be at most 2147483647`},
		{[]string{"compare", "a", "b", "--data", "d", "--top", "2147483648"},
			`--top "2147483648": must be at most 2147483647`},
		{[]string{"z", "show", "--limit", "99999999999999999999"}, "must be at most 2147483647"},
		{[]string{"init", "--dim", "2147483648"}, "must be at most 2147483647"},
		{[]string{"init", "--seed", "18446744073709551616"}, "must be a whole number from 0 to 2⁶⁴ − 1"},
		{[]string{"tune", "--lr", "0.1"}, "unknown flag --lr; put the option learning_rate into the file of --space"},
		{[]string{"tune", "--modle", "m"}, "unknown flag --modle (see"},
		{[]string{"train", "--model", "TransE"}, `--model "TransE": did you mean transe-l1 or transe-l2 (see`},
		{[]string{"tune", "--trials", "99999999999"}, `--trials "99999999999": must be at most 2147483647`},
		{[]string{"tune", "--rungs", "21"}, `--rungs "21": must be at most 20`},
		{[]string{"tune", "--budget", "99999999h"}, `--budget "99999999h": must be at most 2562047h`},
		{[]string{"tune", "--budget", "1h99999999999999999999ns"}, "must be at most 2562047h"},
		{[]string{"tune", "--budget", "2562047h1m"}, "must be at most 2562047h"},
		{[]string{"tune", "--budget", "99999999"}, "must be a time above 0, such as 90m, 2h or 1h30m"},
		{[]string{"tune", "--budget", "0h"}, "must be a time above 0"},
		{[]string{"bench", "run", "--benchtime", "99999999h"}, "must be at most 2562047h"},
		{[]string{"bench", "run", "--count", "1001"}, "must be at most 1000"},
		{[]string{"data", "make", "zipf", "--train", "1e6"}, `--train "1e6": must be a whole number of at least 1`},
		{[]string{"data", "make", "zipf", "--train", "99999999999999999999"}, "must be at most 30000000"},
		{with(eval, "--peak=perhaps"), `--peak "perhaps": must be true or false`},
		{with(eval, "--json", "f", "--ranks", "f"), "--json and --ranks name the same file"},
		{predict, "the query is missing: give"},
		{with(predict, "--head", "h"), "the query is missing: give"},
		{with(predict, "--relation", "r"), "the query is missing: give"},
		{with(predict, "--head", "h", "--tail", "t", "--relation", "r"), "leave out one of --head, --relation and"},
		{with(predict, "--in", "f", "--head", "h"), "--in already gives the queries"},
		{with(predict, "--in", "f", "-k", "0"), `-k "0": must be a whole number of at least 1`},
		{[]string{"init", "--model", "transe"}, `--model "transe": did you mean transe-l1 or transe-l2 (see`},
		{[]string{"init", "--model", "mquine", "--dim", "4"}, "--data and --out are missing"},
		{[]string{"init", "--seed", "-1"}, `--seed "-1": must be a whole number from 0 to 2⁶⁴ − 1`},
		{[]string{"init", "--kind", "trained"}, "choose from random and clustered"},
		{[]string{"info", "a", "b"}, `unexpected argument "b"`},
		{[]string{"demo", "fast"}, `unexpected argument "fast"`},
		{[]string{"data", "bogus"}, `unknown command "bogus"`},
		{[]string{"data", "make"}, "give families or zipf"},
		{[]string{"data", "get"}, "mquine data get: "},
		{[]string{"completion", "tcsh"}, `unknown command "tcsh"`},
	} {
		o := mquine(t, test.args...)
		o.requireSentence(t, exitUsage, test.sentence)
		assert.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
		assert.Contains(t, o.stderr, " --help)")
		assert.Empty(t, o.stdout)
	}
}

// everyCommand calls f for every command except help and completion.
func everyCommand(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, c := range cmd.Commands() {
		if c.Name() != "completion" && c.Name() != "help" {
			everyCommand(c, f)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		for line := range strings.Lines(succeed(t, "completion", shell, "--help").stdout) {
			assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), helpWidth, line)
		}
	}
	everyCommand(newRootCommand(time.Now()), func(cmd *cobra.Command) {
		o := succeed(t, append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		assert.Empty(t, o.stderr)
		assert.NotEmpty(t, cmd.Short, cmd.CommandPath())
		assert.NotEmpty(t, cmd.Long, cmd.CommandPath())
		assert.NotRegexp(t, `(?m)(^| )[^ '"]*[*?[(]`, cmd.Example, "zsh and fish need quotes around patterns")
		for line := range strings.Lines(o.stdout) {
			assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), helpWidth, line)
		}
	})
}

// Every flag of train has a group, and the groups come in order.
func TestFlagGroups(t *testing.T) {
	train, _, err := newRootCommand(time.Now()).Find([]string{"train"})
	require.NoError(t, err)
	train.LocalFlags().VisitAll(func(f *pflag.Flag) { assert.NotNil(t, f.Annotations[groupAnnotation], f.Name) })
	help := succeed(t, "train", "--help").stdout
	var titles []string
	for line := range strings.Lines(help[strings.Index(help, "\nModel:\n"):]) {
		if title, ok := strings.CutSuffix(line, ":\n"); ok && title[0] != ' ' {
			titles = append(titles, title)
		}
	}
	assert.Equal(t, []string{"Model", "Data", "Negatives", "Loss", "Regularisation", "Optimiser", "Validation", "Run",
		"Other"}, titles)
	for _, command := range []string{"train", "eval", "predict", "compare", "tune", "init"} {
		assert.Contains(t, succeed(t, command, "--help").stdout, "\nOther:\n  -h, --help   help for "+command+"\n\n")
	}
	assert.Contains(t, succeed(t, "demo", "--help").stdout, "\nFlags:\n")
}

// Placeholders are upper-case words.
func TestPlaceholders(t *testing.T) {
	everyCommand(newRootCommand(time.Now()), func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			placeholder, _ := pflag.UnquoteUsage(f)
			assert.Regexp(t, "^[A-Z]*$", placeholder, "%s --%s", cmd.CommandPath(), f.Name)
		})
	})
}

// Every flag that namesHere suggests exists, and differs from the name that it replaces.
func TestNamesHere(t *testing.T) {
	flags := map[string]bool{}
	everyCommand(newRootCommand(time.Now()), func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
	})
	for name, here := range namesHere {
		assert.True(t, flags[here], here)
		assert.NotEqual(t, name, here)
	}
	assert.Equal(t, "learning-rate", namesHere["lr"])
}

// Every command that commandsHere suggests exists. No word leads to two commands, and no word is
// itself a command.
func TestCommandsHere(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range newRootCommand(time.Now()).Commands() {
		seen[c.Name()] = true
	}
	for here, words := range commandsHere {
		assert.True(t, seen[here], here)
		for _, word := range words {
			assert.False(t, seen[word], word)
			seen[word] = true
		}
	}
}

// TestExamples parses the examples in the help texts.
func TestExamples(t *testing.T) {
	examples := 0
	everyCommand(newRootCommand(time.Now()), func(documented *cobra.Command) {
		for line := range strings.Lines(strings.ReplaceAll(documented.Example, "\\\n", "")) {
			_, line, found := strings.Cut(line, "mquine ")
			require.True(t, found)
			examples++
			args := strings.Fields(line)
			cmd, rest, err := newRootCommand(time.Now()).Find(args)
			require.NoError(t, err, line)
			require.NoError(t, cmd.ParseFlags(rest), line)
			require.NoError(t, cmd.ValidateArgs(cmd.Flags().Args()), line)
			require.NoError(t, checkRequired(cmd), line)
			if cmd.PreRunE != nil {
				require.NoError(t, cmd.PreRunE(cmd, nil), line)
			}
		}
	})
	assert.GreaterOrEqual(t, examples, 15)
}

func TestCompletion(t *testing.T) {
	t.Setenv("MQUINE_DATA", t.TempDir())
	t.Chdir(t.TempDir())
	succeed(t, "data", "make", "families", "--out", "./source", "--entities", "60")
	succeed(t, "data", "import", "./source", "--name", "clan")

	complete := func(args ...string) string {
		o := succeed(t, append([]string{"__complete"}, args...)...)
		lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
		return strings.Join(lines[:len(lines)-1], " ") // the last line is the directive
	}
	assert.Equal(t, "clan", complete("eval", "--data", ""))
	assert.Equal(t, "", complete("eval", "--data", "./"))
	assert.Equal(t, "train valid test", complete("eval", "--split", ""))
	assert.Equal(t, "tail head both relation", complete("eval", "--side", ""))
	assert.Equal(t, "none train all", complete("eval", "--filter", ""))
	assert.Equal(t, "none,train none,all", complete("eval", "--filter", "none,"))
	assert.Equal(t, "none,train,all", complete("eval", "--filter", "none,train,"))
	assert.Equal(t, "optimistic pessimistic realistic rounded", complete("eval", "--ties", ""))
	assert.Equal(t, "relation entity category z-case degree", complete("eval", "--by", ""))
	assert.Equal(t, "auto cuda avx512 avx2 generic", complete("predict", "--backend", ""))
	assert.Equal(t, "auto float32 int8 int16", complete("eval", "--screen", ""))
	assert.Equal(t, strings.Join(model.Names(), " "), complete("init", "--model", ""))
	assert.Equal(t, "random clustered", complete("init", "--kind", ""))
	assert.Contains(t, complete("tune", "--preset", ""), "paper best paper:codex-l ")
	assert.Contains(t, complete("e"), "eval\t")

	for _, shell := range []string{"bash", "zsh", "fish"} {
		assert.Contains(t, succeed(t, "completion", shell).stdout, "mquine", shell)
	}
}

// The usage of a command follows the first paragraph of its help, before the details. In the help of mquine
// itself, it follows all paragraphs.
func TestHelpShowsUsageFirst(t *testing.T) {
	help := succeed(t, "export", "--help").stdout
	order := `(?s)^Write the parameters.{0,150}\n\nUsage:\n  mquine export CKPT.*\n\nExamples:\n.*\n\n  npy\n`
	assert.Regexp(t, order, help)
	assert.Equal(t, 1, strings.Count(help, "\n  npy\n"))
	whole := succeed(t, "--help").stdout
	assert.Less(t, strings.Index(whole, "Exit status:"), strings.Index(whole, "\nUsage:\n"))
}
