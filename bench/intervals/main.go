// Intervals helps to choose what `mquine eval --ci-by` should resample. On the ranks of real
// queries, it measures how wide the 95% intervals are with each clustering, and how often they
// contain the true mean when triples, queries, entities or relations are sampled. docs/intervals.md
// shows its results.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
	"github.com/mquine/mquine/rank"
)

var (
	clusterings = []metrics.Clustering{metrics.ByTriple, metrics.ByQuery, metrics.ByEntity, metrics.ByRelation}
	selections  = []rank.Sides{rank.TailSide, rank.HeadSide, rank.BothSides}
)

// options holds the values of the flags.
type options struct {
	filter  rank.Filter
	size    int
	samples int
	seed    uint64
	few     bool
}

func main() {
	log.SetFlags(0)
	o := options{filter: rank.All}
	flag.TextVar(&o.filter, "filter", o.filter, "filter of the ranks: none, train or all")
	flag.IntVar(&o.size, "size", 2000, "mean number of triples in a sample")
	flag.IntVar(&o.samples, "samples", 0,
		"number of samples that measure the coverage, drawn from the file or, with -few, simulated; 0: no coverage")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the samples")
	flag.BoolVar(&o.few, "few", false, "simulate a few clusters instead of reading a file")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: go run ./bench/intervals [flags] FILE")
		fmt.Fprintln(os.Stderr, "       FILE is written by mquine eval --ranks FILE, with the ranks of both sides")
		fmt.Fprintln(os.Stderr, "       go run ./bench/intervals -few -samples N")
		flag.PrintDefaults()
	}
	flag.Parse()
	if o.few && flag.NArg() != 0 || !o.few && flag.NArg() != 1 || o.few && o.samples < 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(context.Background(), os.Stdout, flag.Arg(0), o); err != nil {
		log.Fatalf("intervals: %v", err)
	}
}

func run(ctx context.Context, out io.Writer, file string, o options) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if o.few {
		return writeFew(ctx, t, o)
	}
	triples, err := readTriples(file, o.filter)
	if err != nil {
		return err
	}
	if o.samples > 0 && float64(o.size) > keep/2*float64(len(triples)) {
		return fmt.Errorf("samples of %d triples are too large for a population of %d", o.size, len(triples))
	}
	if err := writeWidths(ctx, t, triples, o); err != nil {
		return err
	}
	if o.samples > 0 {
		if err := writeCoverage(ctx, t, triples, o); err != nil {
			return err
		}
	}
	return t.Flush()
}

// pair holds the ranks of a triple by side.
type pair [2]rank.Rank

// readTriples reads a ranks file that contains both sides.
func readTriples(file string, filter rank.Filter) ([]pair, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	read, err := metrics.ReadRanks(file, f, math.MaxInt, kg.NewVocabulary(), kg.NewVocabulary())
	if err != nil {
		return nil, err
	}
	if !slices.Contains(read.Filters, filter) {
		return nil, fmt.Errorf("%s: no ranks under filter %v", file, filter)
	}
	// The ranks are paired by the order of the lines, because a triple may occur more than once.
	var sides [2][]rank.Rank
	for _, r := range read.Ranks {
		sides[r.Side] = append(sides[r.Side], r)
	}
	if len(sides[kg.Tail]) != len(sides[kg.Head]) {
		return nil, fmt.Errorf("%s: %d ranks on side tail, but %d on side head: rank both sides",
			file, len(sides[kg.Tail]), len(sides[kg.Head]))
	}
	pairs := make([]pair, len(sides[kg.Tail]))
	for i := range pairs {
		pairs[i] = pair{sides[kg.Tail][i], sides[kg.Head][i]}
		if pairs[i][kg.Tail].Triple != pairs[i][kg.Head].Triple {
			return nil, errors.New(file + ": the triples of the two sides are not in the same order")
		}
	}
	return pairs, nil
}

// summarize returns a result for each selection of sides, computed from the triples with the
// indices in of.
func summarize(
	ctx context.Context, triples []pair, of []int, by metrics.Clustering, filter rank.Filter,
) ([]metrics.Result, error) {
	ranks := make([]rank.Rank, 0, 2*len(of))
	for _, i := range of {
		ranks = append(ranks, triples[i][:]...)
	}
	all, _, err := metrics.Summarize(ctx, ranks, metrics.SummaryOptions{
		Sides: rank.BothSides, Filters: []rank.Filter{filter}, CIBy: by,
	})
	return slices.DeleteFunc(all, func(r metrics.Result) bool { return r.Ties != rank.Realistic }), err
}

// writeWidths prints the intervals of the whole file.
func writeWidths(ctx context.Context, t *tabwriter.Writer, triples []pair, o options) error {
	fmt.Fprintln(t, "side\tMRR\tby\tclusters\teffective\tinterval\trelative to triple\tdesign effect\t")
	whole := make([]int, len(triples))
	for i := range whole {
		whole[i] = i
	}
	var byTriple [3]float64
	for _, by := range clusterings {
		results, err := summarize(ctx, triples, whole, by, o.filter)
		if err != nil {
			return err
		}
		for s, r := range results {
			width := float64(r.MRRCI[1] - r.MRRCI[0])
			if by == metrics.ByTriple {
				byTriple[s] = width
			}
			fmt.Fprintf(t, "%v\t%.4f\t%v\t%d\t%.1f\t", r.Side, r.MRR, by, r.Clusters, r.Effective)
			if ratio := width / byTriple[s]; math.IsNaN(ratio) {
				fmt.Fprintln(t, "too few\t-\t-\t")
			} else {
				fmt.Fprintf(t, "[%.4f, %.4f]\t%.2f\t%.2f\t\n", r.MRRCI[0], r.MRRCI[1], ratio, ratio*ratio)
			}
		}
	}
	fmt.Fprintln(t)
	return nil
}

// writeCoverage prints how often intervals from samples contain the mean of the whole file.
func writeCoverage(ctx context.Context, t *tabwriter.Writer, triples []pair, o options) error {
	fmt.Fprintf(t, "sampled\tmean triples\tside\tby %s\t\n", strings.Join(names(clusterings), "\tby "))
	trueMeans := make([]float64, len(selections))
	for s, side := range selections {
		for _, p := range triples {
			for _, of := range side.List() {
				trueMeans[s] += 1 / rank.Realistic.Rank(&p[of], o.filter)
			}
		}
		trueMeans[s] /= float64(len(triples) * len(side.List()))
	}
	for _, d := range designs(triples, o) {
		var held, have [3][4]float64
		total := 0
		for range o.samples {
			of := d.draw()
			total += len(of)
			for c, by := range clusterings {
				results, err := summarize(ctx, triples, of, by, o.filter)
				if err != nil {
					return err
				}
				for s, r := range results {
					if low, high := float64(r.MRRCI[0]), float64(r.MRRCI[1]); !math.IsNaN(low) {
						have[s][c]++
						if low <= trueMeans[s] && trueMeans[s] <= high {
							held[s][c]++
						}
					}
				}
			}
		}
		for s, side := range selections {
			fmt.Fprintf(t, "%s\t%d\t%v\t", d.name, total/o.samples, side)
			for c := range clusterings {
				fmt.Fprint(t, share(held[s][c], have[s][c]), "\t")
			}
			fmt.Fprintln(t)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// share formats k/n in percent with its standard error, or a dash if n is less than 50.
func share(k, n float64) string {
	if n < 50 {
		return "–"
	}
	p := k / n
	return fmt.Sprintf("%.1f±%.1f", 100*p, 100*math.Sqrt(p*(1-p)/n))
}

func names[T fmt.Stringer](values []T) []string {
	var all []string
	for _, v := range values {
		all = append(all, v.String())
	}
	return all
}
