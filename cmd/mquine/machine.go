package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/klauspost/cpuid/v2"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/ceiling"
)

// machineInfo describes the processor and the GPUs in the JSON result of `mquine doctor`.
type machineInfo struct {
	Machine string `json:"machine"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	// Cores is the number of physical cores, or 0 if it is unknown. Threads is the default of
	// --threads.
	Cores   int `json:"cores,omitempty"`
	Threads int `json:"threads"`
	// Caches gives the size of each cache in bytes. Several cores may share a cache.
	Caches cacheInfo `json:"caches"`
	// Features lists all features of the processor.
	Features []string `json:"features"`
	// Tier is the instruction set that the kernels use, and UsedFeatures lists the features that
	// they use.
	Tier         string     `json:"tier"`
	TierReason   string     `json:"tier_reason"`
	UsedFeatures []string   `json:"used_features"`
	Tiers        []tierInfo `json:"tiers"`
	// GPUs lists the GPUs that the NVIDIA driver finds. NoGPU says why there are none.
	GPUs  []gpuInfo `json:"gpus"`
	NoGPU string    `json:"no_gpu,omitempty"`
}

// cacheInfo holds the sizes of the caches in bytes. A size is 0 if it is unknown.
type cacheInfo struct {
	L1I int `json:"l1i_bytes"`
	L1D int `json:"l1d_bytes"`
	L2  int `json:"l2_bytes"`
	L3  int `json:"l3_bytes"`
}

// tierInfo holds the rates of fused multiply-adds that were measured with a tier, in GFLOP/s, on
// one thread and on all threads.
type tierInfo struct {
	Tier         string  `json:"tier"`
	FMAGFLOPS1   float64 `json:"fma_gflops_1"`
	FMAGFLOPSAll float64 `json:"fma_gflops_all"`
}

// describeMachine describes the machine and measures the backends, best first. It checks ctx between
// measurements, each of which takes peakTime.
func describeMachine(ctx context.Context, backends []*kernel.Backend) (machineInfo, error) {
	cache := cpuid.CPU.Cache
	info := machineInfo{
		Machine: machine(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Cores: cpuid.CPU.PhysicalCores, Threads: runtime.GOMAXPROCS(0),
		Caches:   cacheInfo{max(cache.L1I, 0), max(cache.L1D, 0), max(cache.L2, 0), max(cache.L3, 0)},
		Features: cpuid.CPU.FeatureSet(), UsedFeatures: []string{}, Tiers: []tierInfo{},
	}
	info.GPUs, info.NoGPU = describeGPUs()
	if len(backends) > 0 {
		best := backends[0]
		info.Tier, info.TierReason, info.UsedFeatures = best.Tier.String(), tierReason(best.Tier), best.Features.Names()
	}
	for _, b := range backends {
		var rates [2]float64
		for i, threads := range [...]int{1, info.Threads} {
			rates[i] = 2 * ceiling.Terms(b, kernel.Dot).Rate(threads, peakTime) / 1e9
			if err := ctx.Err(); err != nil {
				return info, err
			}
		}
		info.Tiers = append(info.Tiers, tierInfo{Tier: b.Tier.String(), FMAGFLOPS1: rates[0], FMAGFLOPSAll: rates[1]})
	}
	return info, nil
}

// machine returns the name of the processor.
func machine() string {
	if name := strings.TrimSpace(cpuid.CPU.BrandName); name != "" {
		return name
	}
	return "unknown " + runtime.GOARCH + " processor"
}

// tierReason says why the kernels use the tier.
func tierReason(t kernel.Tier) string {
	if limit := os.Getenv(kernel.TierEnv); limit == t.String() {
		return fmt.Sprintf("the best that %s=%s allows", kernel.TierEnv, limit)
	}
	if set := kernel.Restrictions(); set != "" {
		return "the best that " + set + " allows"
	}
	return "the best available"
}

func (c cacheInfo) String() string {
	var known []string
	for _, level := range []struct {
		name  string
		bytes int
	}{{"L1i", c.L1I}, {"L1d", c.L1D}, {"L2", c.L2}, {"L3", c.L3}} {
		if level.bytes > 0 {
			known = append(known, level.name+" "+humanize.IBytes(uint64(level.bytes)))
		}
	}
	if len(known) == 0 {
		return "unknown"
	}
	return strings.Join(known, ", ")
}

// vectorFeatures returns the features that belong to the vector and matrix units.
func vectorFeatures(all []string) []string {
	var picked []string
	for _, f := range all {
		for _, prefix := range []string{"AVX", "FMA", "AMX", "F16C", "ASIMD", "SVE"} {
			if strings.HasPrefix(f, prefix) {
				picked = append(picked, f)
				break
			}
		}
	}
	if len(picked) == 0 {
		return []string{"none"}
	}
	return picked
}
