package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/rank"
)

// choice is a flag whose value names an element of the field from.
type choice[T any] struct {
	value *T
	from  []T
}

func (c choice[T]) String() string { return fmt.Sprint(*c.value) }
func (c choice[T]) Type() string   { return "NAME" }

func (c choice[T]) Set(name string) (err error) {
	*c.value, err = pick(c.from, name)
	return err
}

// choices is a flag whose value is a comma-separated list of names of distinct elements of the
// field from.
type choices[T any] struct {
	values *[]T
	from   []T
}

func (c choices[T]) String() string { return strings.Join(names(*c.values), ",") }
func (c choices[T]) Type() string   { return "LIST" }

func (c choices[T]) Set(list string) error {
	var values []T
	for _, name := range strings.Split(list, ",") {
		v, err := pick(c.from, name)
		if err != nil {
			return err
		}
		if slices.Contains(names(values), fmt.Sprint(v)) {
			return fmt.Errorf("%v is given twice", v)
		}
		values = append(values, v)
	}
	*c.values = values
	return nil
}

// pick returns the element with the given name, in any case, in the slice from.
func pick[T any](from []T, name string) (T, error) {
	all := names(from)
	if i := slices.Index(all, text.Fold(name, all)); i >= 0 {
		return from[i], nil
	}
	var none T
	if len(all) == 1 {
		return none, fmt.Errorf("must be %s", all[0])
	}
	advice := text.Choose(name, all)
	if here := filtersOfPapers[strings.ToLower(name)]; slices.Contains(all, here) {
		advice += fmt.Sprintf("; %q is %s here", name, here)
	}
	return none, errors.New(advice)
}

// filtersOfPapers are the usual words for filters, with the names of these filters.
var filtersOfPapers = map[string]string{"raw": rank.None.String(), "filtered": rank.All.String()}

func names[T any](values []T) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = fmt.Sprint(v)
	}
	return all
}

// addChoice adds a flag that sets *value to an element of the list from. The current *value is the
// default.
func addChoice[T any](cmd *cobra.Command, value *T, flag, usage string, from ...T) {
	cmd.Flags().Var(choice[T]{value, from}, flag, usage)
	complete(cmd, flag, cobra.FixedCompletions(names(from), cobra.ShellCompDirectiveNoFileComp))
}

// addChoices adds a flag that sets *values to elements of the list from. The current *values are
// the default.
func addChoices[T any](cmd *cobra.Command, values *[]T, flag, usage string, from ...T) {
	cmd.Flags().Var(choices[T]{values, from}, flag, usage)
	complete(cmd, flag, func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		given := strings.Split(before, ",")
		var list []string
		for _, name := range names(from) {
			if !slices.Contains(given, name) {
				list = append(list, before+name)
			}
		}
		return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}

// positive is a flag whose value is a whole number of at least 1. The maximum is the field most, or
// math.MaxInt32 if most is 0.
type positive struct {
	n    *int
	most int
}

func (p positive) String() string { return strconv.Itoa(*p.n) }
func (p positive) Type() string   { return "N" }

func (p positive) Set(s string) error {
	n, err := parsePositive(s, cmp.Or(p.most, math.MaxInt32))
	if err == nil {
		*p.n = n
	}
	return err
}

func parsePositive(s string, most int) (int, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case n > int64(most): // even if the number overflows int64: ParseInt then returns the largest int64
		return 0, fmt.Errorf("must be at most %d", most)
	case err != nil || n < 1:
		return 0, errors.New("must be a whole number of at least 1")
	}
	return int(n), nil
}

// natural is a flag whose value is a whole number of at least 0.
type natural struct{ n *int }

func (c natural) String() string { return strconv.Itoa(*c.n) }
func (c natural) Type() string   { return "N" }

func (c natural) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return fmt.Errorf("must be a whole number from 0 to %d", math.MaxInt32)
	}
	*c.n = int(n)
	return nil
}

// seed is a flag whose value is the seed of a random generator.
type seed struct{ n *uint64 }

func (s seed) String() string { return strconv.FormatUint(*s.n, 10) }
func (s seed) Type() string   { return "N" }

func (s seed) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return errors.New("must be a whole number from 0 to 2⁶⁴ − 1")
	}
	*s.n = n
	return nil
}

// number is a flag whose value is a number.
type number struct{ x *float64 }

func (n number) String() string { return strconv.FormatFloat(*n.x, 'g', -1, 64) }
func (n number) Type() string   { return "X" }

func (n number) Set(text string) error {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return errors.New("must be a number")
	}
	*n.x = x
	return nil
}

// longestTime is the longest time.Duration that is a whole number of hours.
const longestTime = 2562047 * time.Hour

// timeSyntax matches durations without a minus sign, in the syntax of time.ParseDuration, even if
// they overflow.
var timeSyntax = regexp.MustCompile(`^\+?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`)

// span is a flag whose value is a duration above 0 and up to longestTime. The field such gives
// examples for the error.
type span struct {
	d    *time.Duration
	such string
}

func (s span) String() string {
	if *s.d == 0 {
		return "" // no default
	}
	return s.d.String()
}
func (s span) Type() string { return "DURATION" }

func (s span) Set(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case d > longestTime || err != nil && timeSyntax.MatchString(text):
		return fmt.Errorf("must be at most %.0fh", longestTime.Hours())
	case err != nil || d <= 0:
		return fmt.Errorf("must be a time above 0, such as %s", s.such)
	}
	*s.d = d
	return nil
}

// cutoffs is a flag whose value is a comma-separated list of distinct values of k for Hits@k.
type cutoffs struct{ ks *[]int }

func (c cutoffs) String() string { return strings.Join(names(*c.ks), ",") }
func (c cutoffs) Type() string   { return "LIST" }

func (c cutoffs) Set(list string) error {
	var ks []int
	for _, s := range strings.Split(list, ",") {
		k, err := parsePositive(s, math.MaxInt32)
		if err != nil {
			return fmt.Errorf("must be whole numbers from 1 to %d, separated by commas, such as 1,3,10", math.MaxInt32)
		}
		if slices.Contains(ks, k) {
			return fmt.Errorf("%d is given twice", k)
		}
		ks = append(ks, k)
	}
	*c.ks = ks
	return nil
}

// inputs holds the flags of commands that read a checkpoint and a data set.
type inputs struct {
	checkpoint, vocabulary, data string
	// several reports whether the command reads several checkpoints. It is not an error if one of
	// them does not need the folder vocabulary.
	several       bool
	skipUnknown   bool
	inverseWeight inverseWeight
	ensemble      ensemble // the zero value without --ensemble
}

func (in *inputs) add(cmd *cobra.Command) {
	in.addOptional(cmd)
	markRequired(cmd, dataFlag)
}

// addOptional is like add for commands that do not need a data set.
func (in *inputs) addOptional(cmd *cobra.Command) {
	addCheckpoint(cmd, &in.checkpoint)
	addVocabulary(cmd, &in.vocabulary)
	in.inverseWeight.add(cmd)
	addOptionalData(cmd, &in.data)
	addSkipUnknown(cmd, &in.skipUnknown)
}

const (
	dataFlag        = "data"
	skipUnknownFlag = "skip-unknown"
)

// addSkipUnknown adds the flag --skip-unknown.
func addSkipUnknown(cmd *cobra.Command, skip *bool) {
	cmd.Flags().BoolVar(skip, skipUnknownFlag, false,
		"leave out triples of the data with labels that the checkpoint lacks")
	inGroup(cmd, inputFlags, skipUnknownFlag)
}

// addData adds the flag --data.
func addData(cmd *cobra.Command, data *string) {
	addOptionalData(cmd, data)
	markRequired(cmd, dataFlag)
}

func addOptionalData(cmd *cobra.Command, data *string) {
	cmd.Flags().StringVar(data, dataFlag, "", "data set `NAME`, or a path with a slash")
	inGroup(cmd, inputFlags, dataFlag)
	markInput(cmd, dataFlag)
	complete(cmd, dataFlag, func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		if strings.Contains(typed, "/") {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
		// Ignore an error: a shell cannot show it.
		installed, _ := kg.Installed()
		return installed, cobra.ShellCompDirectiveNoFileComp
	})
}

// compute holds the flags that choose the instruction set and the number of threads. They affect
// the speed, but never a rank or a score. The instruction set affects the parameters that train,
// tune and init --kind clustered fit; the number of threads does not.
type compute struct {
	backend string
	threads int
}

const (
	autoBackend = "auto"
	// maxThreads limits the memory that threads use. Few machines have more processors.
	maxThreads = 4096
)

// add adds the flags of a command that computes on the processor.
func (c *compute) add(cmd *cobra.Command) {
	c.setDefaults()
	addChoice(cmd, &c.backend, "backend", "instruction set: auto (the best of this machine), avx512, avx2 or generic",
		autoBackend, kernel.AVX512.String(), kernel.AVX2.String(), kernel.Generic.String())
	cmd.Flags().Var(positive{&c.threads, maxThreads}, "threads", "number of threads")
	inGroup(cmd, machineFlags, "backend", "threads")
}

func (c *compute) setDefaults() {
	c.backend, c.threads = autoBackend, min(runtime.GOMAXPROCS(0), maxThreads)
}

// resolve returns the backend that the flags select.
func (c *compute) resolve() (*kernel.Backend, error) {
	if c.backend == autoBackend || c.backend == cudaBackend {
		return kernel.New()
	}
	tier, err := kernel.ParseTier(c.backend)
	if err != nil {
		return nil, err
	}
	return kernel.For(tier)
}

// completeFirst completes the first n arguments with files or folders, as the directive says.
func completeFirst(n int, directive cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, directive
	}
}

func markRequired(cmd *cobra.Command, flag string) { must(cmd.MarkFlagRequired(flag)) }

func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	must(cmd.RegisterFlagCompletionFunc(flag, f))
}

// must panics on an error that only a bug in this package can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
