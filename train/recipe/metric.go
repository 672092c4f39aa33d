package recipe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mquine/mquine/rank"
)

// Metric selects a validation measure by name, side and filter. Larger is better. Its text form is,
// for example, mrr/both/all.
type Metric struct {
	// Name is mrr, hits@1, hits@3 or hits@10.
	Name   string
	Side   rank.Sides
	Filter rank.Filter
}

var (
	metricNames   = []string{"mrr", "hits@1", "hits@3", "hits@10"}
	defaultMetric = Metric{"mrr", rank.BothSides, rank.All}
)

func (m Metric) String() string { return fmt.Sprintf("%s/%v/%v", m.Name, m.Side, m.Filter) }

// Type returns the word for this kind of value in help texts.
func (m *Metric) Type() string { return "METRIC" }

// Range describes the strings that Set accepts.
func (m *Metric) Range() string {
	return strings.Join(metricNames, ", ") + " / tail, head, both / none, train, all"
}

// Set parses text in the format of String.
func (m *Metric) Set(text string) error {
	parts := strings.Split(text, "/")
	bad := fmt.Errorf("must be a name (%s), a side (tail, head or both) and a filter (none, train or all), "+
		"such as mrr/both/all", strings.Join(metricNames, ", "))
	if len(parts) != 3 || !slices.Contains(metricNames, parts[0]) {
		return bad
	}
	side, err := rank.ParseSides(parts[1])
	if err != nil || side == rank.RelationSide {
		return bad
	}
	filter, err := rank.ParseFilter(parts[2])
	if err != nil {
		return bad
	}
	*m = Metric{parts[0], side, filter}
	return nil
}
