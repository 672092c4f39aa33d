package recipe

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mquine/mquine/model"
	"github.com/mquine/mquine/train/internal/setting"
)

// Hyper holds values of the model's hyper-parameters as text, such as "max_norm=1,relation_dim=30",
// ordered by key. Other hyper-parameters have the values of a new model.
type Hyper string

const noHyper = "none"

// Values returns the values by key.
func (h Hyper) Values() map[string]float64 {
	values := map[string]float64{}
	if h == "" {
		return values
	}
	for pair := range strings.SplitSeq(string(h), ",") {
		key, text, _ := strings.Cut(pair, "=")
		values[key], _ = strconv.ParseFloat(text, 64) // Set has already checked the text
	}
	return values
}

func hyper(h *Hyper) setting.Value { return (*hyperValue)(h) }

type hyperValue Hyper

func (h *hyperValue) Type() string  { return "VALUES" }
func (h *hyperValue) Range() string { return noHyper + ", or KEY=X, separated by commas" }

func (h *hyperValue) String() string {
	if *h == "" {
		return noHyper
	}
	return string(*h)
}

func (h *hyperValue) Set(text string) error {
	if text == noHyper {
		*h = ""
		return nil
	}
	pairs := strings.Split(text, ",")
	for i, pair := range pairs {
		key, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		x, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("must be %s or have the form KEY=X,KEY=X with numbers X, but contains %.40q",
				noHyper, pair)
		}
		known := model.HyperParameters()
		if !slices.ContainsFunc(known, func(p *model.HyperParameter) bool { return p.Key == key }) {
			return fmt.Errorf("no model has a hyper-parameter %.40q", key)
		}
		pairs[i] = key + "=" + strconv.FormatFloat(x, 'g', -1, 64)
	}
	slices.Sort(pairs)
	for i := range pairs[1:] {
		key, _, _ := strings.Cut(pairs[i], "=")
		if strings.HasPrefix(pairs[i+1], key+"=") {
			return fmt.Errorf("sets %s twice", key)
		}
	}
	*h = hyperValue(strings.Join(pairs, ","))
	return nil
}

// checkHyper returns an error if Hyper sets a hyper-parameter that another option determines.
func (r *Recipe) checkHyper(spec *model.Spec) error {
	values := r.Hyper.Values()
	if spec.Start.Hyper == nil || len(values) == 0 {
		return nil
	}
	for key := range spec.Start.Hyper(r.Start()) {
		if _, given := values[key]; given {
			return fmt.Errorf("hyper: training determines %s of model %s from other options, such as gamma and "+
				"init_std: omit it", key, r.Model)
		}
	}
	return nil
}
