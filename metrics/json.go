package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MarshalJSON writes null for NaN.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads null as NaN.
func (n *Number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = undefined
		return nil
	}
	return json.Unmarshal(text, (*float64)(n))
}

// hitsKey is the prefix of the keys of Hits@k, such as hits@10. No object is nested in a result, so
// a data frame can have the numbers as columns.
const hitsKey = "hits@"

// field is a field of a JSON object.
type field struct {
	key   string
	value any
}

// writeObject returns a JSON object with the fields in order. There must be at least one field.
func writeObject(fields []field) ([]byte, error) {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	for i, f := range fields {
		buf.WriteByte("{,"[min(i, 1)])
		fmt.Fprintf(&buf, "%q:", f.key)
		if err := encoder.Encode(f.value); err != nil {
			return nil, err
		}
	}
	buf.WriteByte('}')
	return buf.Bytes(), nil
}

// readObject calls read for every field of a JSON object, in order.
func readObject(text []byte, read func(key string, value json.RawMessage) error) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return fmt.Errorf("%.40s is not an object", text)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		if err := read(key.(string), value); err != nil {
			return err
		}
	}
	return nil
}

// MarshalJSON writes one flat object, with a key for each k of Hits@k.
func (r Result) MarshalJSON() ([]byte, error) {
	var fields []field
	if r.By != "" {
		fields = append(fields, field{"by", r.By}, field{"group", r.Group})
	}
	if r.Label != "" {
		fields = append(fields, field{"label", r.Label})
	}
	fields = append(fields,
		field{"side", r.Side}, field{"filter", r.Filter}, field{"ties", r.Ties}, field{"n", r.N},
		field{"mrr", r.MRR}, field{"mrr_ci_low", r.MRRCI[0]}, field{"mrr_ci_high", r.MRRCI[1]},
		field{"clusters", r.Clusters}, field{"effective_clusters", r.Effective},
		field{"mr", r.MR}, field{"median", r.Median}, field{"gmr", r.GMR}, field{"amr", r.AMR}, field{"amri", r.AMRI})
	fields = append(fields, r.Hits.fields()...)
	if r.Limits != nil {
		for kind, limit := range r.Limits {
			fields = append(fields, field{limitKey(LimitKind(kind)), limit})
		}
	}
	if r.RankCounts != nil {
		fields = append(fields, field{"rank_counts", r.RankCounts})
	}
	return writeObject(fields)
}

// UnmarshalJSON reads an object that MarshalJSON wrote, in this version or in the first one. The
// first version nested the values of mrr_ci and hits. Metrics that are absent are undefined.
func (r *Result) UnmarshalJSON(text []byte) error {
	*r = Result{
		MRR: undefined, MRRCI: [2]Number{undefined, undefined}, ClusterCount: ClusterCount{Effective: undefined},
		MR: undefined, Median: undefined, GMR: undefined, AMR: undefined, AMRI: undefined,
	}
	into := map[string]any{
		"by": &r.By, "group": &r.Group, "label": &r.Label, "side": &r.Side, "filter": &r.Filter, "ties": &r.Ties,
		"n":   &r.N,
		"mrr": &r.MRR, "mrr_ci_low": &r.MRRCI[0], "mrr_ci_high": &r.MRRCI[1], "mrr_ci": &r.MRRCI,
		"clusters": &r.Clusters, "effective_clusters": &r.Effective,
		"mr": &r.MR, "median": &r.Median, "gmr": &r.GMR, "amr": &r.AMR, "amri": &r.AMRI,
		"rank_counts": &r.RankCounts,
	}
	return readObject(text, func(key string, value json.RawMessage) error {
		if k, ok := strings.CutPrefix(key, hitsKey); ok {
			return r.Hits.read(k, value)
		}
		for kind := range NumLimitKinds {
			if key == limitKey(kind) {
				if r.Limits == nil {
					r.Limits = &[NumLimitKinds]Number{undefined, undefined}
				}
				return json.Unmarshal(value, &r.Limits[kind])
			}
		}
		if key == "hits" {
			return readObject(value, r.Hits.read)
		}
		if field := into[key]; field != nil {
			return json.Unmarshal(value, field)
		}
		return nil // a key of a later version
	})
}

// MarshalJSON writes one flat object.
func (d MetricDifference) MarshalJSON() ([]byte, error) {
	return writeObject([]field{
		{"metric", d.Metric}, {"base", d.Base}, {"other", d.Other}, {"difference", d.Difference},
		{"ci_low", d.CI[0]}, {"ci_high", d.CI[1]}, {"p", d.P},
	})
}

// UnmarshalJSON reads an object that MarshalJSON wrote, in this version or in the first one. The
// first version nested the interval as ci and wrote the names of metrics as tables do.
func (d *MetricDifference) UnmarshalJSON(text []byte) error {
	*d = MetricDifference{
		Base: undefined, Other: undefined, Difference: undefined, CI: [2]Number{undefined, undefined}, P: undefined,
	}
	into := map[string]any{
		"metric": &d.Metric, "base": &d.Base, "other": &d.Other, "difference": &d.Difference,
		"ci_low": &d.CI[0], "ci_high": &d.CI[1], "ci": &d.CI, "p": &d.P,
	}
	err := readObject(text, func(key string, value json.RawMessage) error {
		if field := into[key]; field != nil {
			return json.Unmarshal(value, field)
		}
		return nil // a key of a later version
	})
	d.Metric = strings.ToLower(d.Metric)
	return err
}

// MarshalJSON writes one flat object.
func (l Limit) MarshalJSON() ([]byte, error) {
	return writeObject(append([]field{
		{"side", l.Side}, {"filter", l.Filter}, {"ranking", l.Kind.String()}, {"n", l.N}, {"mrr", l.MRR},
	}, l.Hits.fields()...))
}

// limitKey returns the key of a limit of MRR, such as mrr_limit_oracle.
func limitKey(k LimitKind) string { return "mrr_limit_" + k.String() }

// fields returns a field for each Hits@k.
func (h Hits) fields() (list []field) {
	for _, at := range h {
		list = append(list, field{hitsKey + strconv.Itoa(at.K), at.Share})
	}
	return list
}

// read adds a Hits@k.
func (h *Hits) read(k string, value json.RawMessage) error {
	at := HitsAt{}
	var err error
	if at.K, err = strconv.Atoi(k); err != nil {
		return fmt.Errorf("the cut-off %q of Hits@k is not a whole number", k)
	}
	if err := json.Unmarshal(value, &at.Share); err != nil {
		return err
	}
	*h = append(*h, at)
	return nil
}
