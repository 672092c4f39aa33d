package kernel_test

import (
	"fmt"
	"log"

	"github.com/mquine/mquine/kernel"
)

// This example scores two queries against three candidates. How many candidates have a dot product
// above the threshold of the query's target, and which are too close to the threshold to decide?
func ExamplePanels_Score() {
	b, err := kernel.New()
	if err != nil {
		log.Fatal(err)
	}
	p := b.Panels(kernel.Dot)

	const k = 2 // coordinates
	queries := []float32{1, 0, 0, 1}
	candidates := []float32{1, 2, 3, 4, 5, 6}

	strip := kernel.AlignedWords(k * p.MR)
	p.PackStrip(strip, 0, 1, kernel.Words(queries), k, []int32{0, 1}, []int32{0, 1})
	panel := kernel.AlignedWords(k * p.NR)
	kernel.PackRows(panel, kernel.Words(candidates), k, []int32{0, 1, 2}, []int32{0, 1}, p.NR)

	// Query 0 has target 0, query 1 has target 1, and the queries that fill up the strip have no
	// targets.
	targetStart := make([]int32, p.MR+1)
	for i := range targetStart {
		targetStart[i] = int32(min(i, 2))
	}
	call := kernel.PanelCall{
		K: k, Strips: strip, Panel: panel, ValidLanes: 0b111,
		TargetStart: targetStart,
		Thresholds:  []float32{2.9, 3.1, 3.9, 4.1}, // an interval around 3 and one around 4
		Counts:      make([]int32, 2),
	}
	s := b.NewPanelScratch(p.MR, 2)
	p.Score(s, &call)

	fmt.Println("scores of query 0:", s.Scores[:3])
	fmt.Println("better:", call.Counts)
	for i := range s.Pairs {
		fmt.Printf("target %d: candidates %03b are undecided\n", s.Undecided[2*i], s.Undecided[2*i+1])
	}
	// Output:
	// scores of query 0: [1 3 5]
	// better: [1 1]
	// target 0: candidates 010 are undecided
	// target 1: candidates 010 are undecided
}
