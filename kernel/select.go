package kernel

import (
	"fmt"
	"os"
	"strings"
)

const (
	// TierEnv is the environment variable that caps the tier.
	TierEnv = "MQUINE_TIER"
	// CPUEnv is the environment variable that switches features off: their names, each after a minus sign, separated by
	// commas, such as "-vnni,-amx".
	CPUEnv = "MQUINE_CPU"
)

// Options restrict New beyond the environment.
type Options struct {
	// Without are features that the backend does not use.
	Without Features
}

// New returns the backend with all features that this machine, this build, TierEnv, CPUEnv and o allow. An environment
// variable with an unknown name is an error.
func New(o Options) (*Backend, error) {
	f, err := allowedFeatures()
	if err != nil {
		return nil, err
	}
	return newBackend(f.Without(o.Without)), nil
}

// Best returns the tier of New's backend.
func Best() (Tier, error) {
	f, err := allowedFeatures()
	return f.Tier(), err
}

// Available lists New's backend and those of the tiers below it, best first.
func Available() ([]*Backend, error) {
	f, err := allowedFeatures()
	if err != nil {
		return nil, err
	}
	var all []*Backend
	for t := int(f.Tier()); t >= 0; t-- {
		all = append(all, newBackend(f.upTo(Tier(t))))
	}
	return all, nil
}

// For returns the backend of a tier. It is an error if this machine lacks the tier, or the environment forbids it.
func For(t Tier) (*Backend, error) {
	f, err := allowedFeatures()
	if err != nil {
		return nil, err
	}
	if best := f.Tier(); t > best {
		if detected := detectFeatures().Tier(); t > detected {
			return nil, fmt.Errorf("backend %s: this machine and build offer %s at most", t, detected)
		}
		return nil, fmt.Errorf("backend %s: %s allows %s at most", t, Restrictions(), best)
	}
	return newBackend(f.upTo(t)), nil
}

// Restrictions returns what the environment forbids, as it is set there: "MQUINE_TIER=avx2", or "" for nothing.
func Restrictions() string {
	var set []string
	for _, name := range []string{TierEnv, CPUEnv} {
		if value := os.Getenv(name); value != "" {
			set = append(set, name+"="+value)
		}
	}
	return strings.Join(set, " ")
}

// newBackend returns the backend with these features, but for AMX where the system does not let this process use it.
func newBackend(f Features) *Backend {
	if f.Has(FeatureAMX) && !allowTiles() {
		f = f.Without(FeatureAMX)
	}
	b := constructors[f.Tier()](f)
	b.Tier, b.Features = f.Tier(), f
	return b
}

// allowedFeatures returns the features of this machine and build that the environment allows. The system may still
// refuse AMX: see newBackend.
func allowedFeatures() (Features, error) {
	f := detectFeatures()
	if name := os.Getenv(TierEnv); name != "" {
		limit, err := ParseTier(name)
		if err != nil {
			return 0, fmt.Errorf("environment variable %s: %w", TierEnv, err)
		}
		f = f.upTo(limit)
	}
	if list := os.Getenv(CPUEnv); list != "" {
		off, err := parseSwitches(list)
		if err != nil {
			return 0, fmt.Errorf("environment variable %s: %w", CPUEnv, err)
		}
		f = f.Without(off)
	}
	return f, nil
}

// parseSwitches returns the features that a list like "-vnni,-amx" switches off.
func parseSwitches(list string) (off Features, err error) {
	for item := range strings.SplitSeq(list, ",") {
		name, minus := strings.CutPrefix(strings.TrimSpace(item), "-")
		f, err := parseFeature(name)
		if err != nil {
			return 0, err
		}
		if !minus {
			return 0, fmt.Errorf("%q: features can only be switched off: write -%s", item, name)
		}
		off |= f
	}
	return off, nil
}
