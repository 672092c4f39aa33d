package metrics

import (
	"fmt"
	"strings"
	"time"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kg"
)

// Provenance says where a result comes from: which program made it, when, how and from what. All
// JSON reports of mquine contain this object. Parts that a result does not depend on are absent.
type Provenance struct {
	// Version is the version of mquine. Revision is the commit from which mquine was built, if the
	// build recorded it. A revision with uncommitted changes ends with "+changes".
	Version  string `json:"version,omitempty"`
	Revision string `json:"revision,omitempty"`
	// Date is the time at which the process began, in UTC and in whole seconds.
	Date time.Time `json:"date,omitzero"`
	// Command is the command line, quoted for a POSIX shell.
	Command string `json:"command,omitempty"`

	Machine    Machine    `json:"machine,omitzero"`
	Checkpoint Checkpoint `json:"checkpoint,omitzero"`
	Data       Data       `json:"data,omitzero"`
	Bootstrap  Bootstrap  `json:"bootstrap,omitzero"`
}

// Machine describes the machine that computed a result.
type Machine struct {
	// CPU is the name of the processor. If GPUs did the ranking, their names follow.
	CPU string `json:"cpu"`
	// Tier is the instruction set of the kernels, or "cuda".
	Tier    string `json:"tier,omitempty"`
	Threads int    `json:"threads,omitempty"`
}

// Checkpoint identifies a checkpoint.
type Checkpoint struct {
	Path string `json:"path,omitempty"`
	// SHA256 is the digest of the files with the parameters (checkpoint.Checkpoint.SHA256), in
	// hexadecimal digits.
	SHA256 string `json:"sha256,omitempty"`
	// Model is the name of the model, and Dim is its dimension d.
	Model string `json:"model,omitempty"`
	Dim   int    `json:"dim,omitempty"`
	// Reciprocal reports whether the model has reciprocal relations.
	Reciprocal bool `json:"reciprocal,omitempty"`
	// InverseWeight is the weight of the inverse triple in the score (model.Config).
	InverseWeight float64 `json:"inverse_weight,omitempty"`
	// Notes says what was converted or assumed, and how the tool's scores differ (checkpoint.Checkpoint.Notes).
	Notes []string `json:"notes,omitempty"`
	// Members lists the checkpoints of an ensemble. Path, SHA256 and Dim are then absent.
	Members []EnsembleMember `json:"members,omitempty"`
}

// EnsembleMember is a checkpoint of an ensemble, with the weight of its scores.
type EnsembleMember struct {
	Weight float64 `json:"weight"`
	Checkpoint
}

// Parameters identifies the parameters: by their checksum, with the weight of the inverse triple if
// there is one, or, for an ensemble, by the weights and the checksums of its members.
func (c Checkpoint) Parameters() string {
	return c.text(func(c Checkpoint) string {
		if c.InverseWeight != 0 {
			return fmt.Sprintf("%s, inverse weight %v", c.SHA256, c.InverseWeight)
		}
		return c.SHA256
	})
}

// PathText names the checkpoint or, for an ensemble, its members and their weights, as in
// "1 ./a + 0.5 ./b". A weight of the inverse triple follows its checkpoint.
func (c Checkpoint) PathText() string {
	return c.text(func(c Checkpoint) string {
		if c.InverseWeight != 0 {
			return fmt.Sprintf("%s (inverse weight %v)", c.Path, c.InverseWeight)
		}
		return c.Path
	})
}

// ModelText describes the model, as in "complex (d = 128)", "complex (d = 128, reciprocal)" or, for an
// ensemble, "1 complex (d = 128) + 0.5 mquine (d = 48)".
func (c Checkpoint) ModelText() string {
	return c.text(func(c Checkpoint) string {
		switch {
		case c.InverseWeight != 0:
			return fmt.Sprintf("%s (d = %d, reciprocal, inverse weight %v)", c.Model, c.Dim, c.InverseWeight)
		case c.Reciprocal:
			return fmt.Sprintf("%s (d = %d, reciprocal)", c.Model, c.Dim)
		}
		return fmt.Sprintf("%s (d = %d)", c.Model, c.Dim)
	})
}

// text returns what one says of the checkpoint or, for an ensemble, of its members, with their weights.
func (c Checkpoint) text(one func(Checkpoint) string) string {
	if c.Members == nil {
		return one(c)
	}
	var terms []string
	for _, m := range c.Members {
		terms = append(terms, fmt.Sprintf("%v %s", m.Weight, one(m.Checkpoint)))
	}
	return strings.Join(terms, " + ")
}

// Data identifies a data set.
type Data struct {
	Name string `json:"name"`
	// SHA256 is kg.Graph.SHA256: the digest of all triples, with their labels, in hexadecimal digits. It covers
	// LeftOut.
	SHA256 string `json:"sha256,omitempty"`
	// Entities and Relations count the labels. With a checkpoint, they count the checkpoint's labels.
	// Train, Valid and Test count the triples of the splits.
	Entities  int `json:"entities"`
	Relations int `json:"relations"`
	Train     int `json:"train"`
	Valid     int `json:"valid"`
	Test      int `json:"test"`
	// LeftOut counts the triples that the splits do not count because a checkpoint lacks their labels.
	LeftOut LeftOut `json:"left_out,omitzero"`
}

// LeftOut counts triples that are left out of the splits (kg.Graph.Restrict).
type LeftOut struct {
	Train int `json:"train"`
	Valid int `json:"valid"`
	Test  int `json:"test"`
}

// LeftOutOf returns the numbers of triples that are left out of a graph.
func LeftOutOf(g *kg.Graph) LeftOut {
	return LeftOut{g.LeftOut(kg.Train), g.LeftOut(kg.Valid), g.LeftOut(kg.Test)}
}

// Of describes the triples that are left out of a split, as in "2 triples with unknown labels". It returns ""
// if there are none.
func (l LeftOut) Of(split string) string {
	n := map[string]int{kg.Train.String(): l.Train, kg.Valid.String(): l.Valid, kg.Test.String(): l.Test}[split]
	if n == 0 {
		return ""
	}
	return text.Plural(n, "triple") + " with unknown labels"
}

// SplitText names a split of the data set, as in "umls test" or "umls test without 2 triples with unknown
// labels".
func (d Data) SplitText(split string) string {
	name := d.Name + " " + split
	if left := d.LeftOut.Of(split); left != "" {
		name += " without " + left
	}
	return name
}

// Bootstrap describes the resampling behind intervals.
type Bootstrap struct {
	Resamples int     `json:"resamples"`
	Level     float64 `json:"level"`
	Seed      uint64  `json:"seed"`
	// By is the unit that is resampled. Some reports of the first version lack By; their unit is a
	// triple.
	By Clustering `json:"by"`
	// Permutations and PermutationSeed describe the permutation test of a comparison.
	Permutations    int    `json:"permutations,omitempty"`
	PermutationSeed uint64 `json:"permutation_seed,omitempty"`
}

// bootstrapOf describes the resampling of Summarize.
func bootstrapOf(by Clustering) Bootstrap {
	return Bootstrap{Resamples: resamples, Level: 0.95, Seed: bootstrapSeed, By: by}
}
