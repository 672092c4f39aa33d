package kernel

import (
	"fmt"
	"os"
	"strings"
)

const (
	// TierEnv is the environment variable that caps the tier: "avx2", for example.
	TierEnv = "MQUINE_TIER"
	// CPUEnv is the environment variable that switches features off: a comma-separated list of
	// their names, each after a minus sign, such as "-vnni,-amx".
	CPUEnv = "MQUINE_CPU"
)

// New returns the backend with every feature that this machine, this build, TierEnv and CPUEnv all
// allow. It returns an error if an environment variable names an unknown tier or feature.
func New() (*Backend, error) { return NewWithout(0) }

// NewWithout is New without the features of off and the features that need any of them. Tests use
// it: programs leave this choice to the user's environment variables.
func NewWithout(off Features) (*Backend, error) {
	f, err := allowedFeatures()
	if err != nil {
		return nil, err
	}
	return newBackend(f.Without(off)), nil
}

// Available returns New's backend and the backends of all lower tiers, best first.
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

// For returns the backend of tier t. It returns an error if this machine lacks the tier or the
// environment forbids it.
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

// Restrictions returns the settings of TierEnv and CPUEnv, such as "MQUINE_TIER=avx2", or "" if
// neither is set.
func Restrictions() string {
	var set []string
	for _, name := range []string{TierEnv, CPUEnv} {
		if value := os.Getenv(name); value != "" {
			set = append(set, name+"="+value)
		}
	}
	return strings.Join(set, " ")
}

// newBackend returns the backend with these features. It drops AMX if the system does not allow
// this process to use AMX, and AVX-VNNI in tier AVX512, whose kernels do not use it.
func newBackend(f Features) *Backend {
	if f.Tier() == AVX512 {
		f = f.Without(FeatureAVXVNNI)
	}
	if f.Has(FeatureAMX) && !requestAMX() {
		f = f.Without(FeatureAMX)
	}
	b := constructors[f.Tier()](f)
	b.Tier, b.Features = f.Tier(), f
	return b
}

// allowedFeatures returns the features of this machine and build that the environment allows. The
// system may still refuse AMX (see newBackend).
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

// parseSwitches returns the features that a list such as "-vnni,-amx" switches off.
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
