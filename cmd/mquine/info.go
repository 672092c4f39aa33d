package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/klauspost/cpuid/v2"
	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/ceiling"
)

func newInfoCommand() *cobra.Command {
	var jsonFile string
	cmd := &cobra.Command{
		Use:   "info [CKPT]",
		Short: "Describe the machine, or a checkpoint",
		Long: `Describe the machine, or a checkpoint.

Without an argument, the command shows the processor with its caches and
features, the instruction set and the features that the kernels use, and the
GPUs. It also measures the rate of fused multiply-adds (FMA) of each instruction
set, on one thread and on all threads. "mquine eval --peak" relates a ranking to
this rate.

For a checkpoint, the command shows the metadata, the folder of the labels, and
the tensors with their shapes, NaN and infinite values, and the Euclidean norms
of their rows. It describes a damaged checkpoint as far as possible. If "mquine
eval" refuses the checkpoint, the exit status is 1. Long metadata values are
shortened, but not in --json.`,
		Example: `  mquine info
  mquine info ./checkpoint
  mquine info --json machine.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("unexpected argument %q: the command accepts one checkpoint", args[1])
			}
			return nil
		},
		Annotations: map[string]string{checkpointArgs: ""},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var (
				info interface{ print(*bytes.Buffer) }
				err  error
			)
			if len(args) == 0 {
				info, err = describeMachine(cmd.Context())
			} else {
				info, err = describeCheckpoint(cmd.Context(), cmd.ErrOrStderr(), args[0])
			}
			if err != nil {
				return err
			}
			if err := writeResult(cmd, jsonFile, info); err != nil {
				return err
			}
			if c, ok := info.(*checkpointInfo); ok && c.Problem != "" {
				return fmt.Errorf("mquine eval refuses the checkpoint: %s", c.Problem)
			}
			return nil
		},
	}
	jsonFlag(cmd, &jsonFile)
	return cmd
}

// machineInfo is the JSON result of `mquine info`.
type machineInfo struct {
	Schema  string `json:"schema"`
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

// tierInfo holds the measured rates of fused multiply-adds in GFLOP/s, on one thread and on all
// threads.
type tierInfo struct {
	Tier         string  `json:"tier"`
	FMAGFLOPS1   float64 `json:"fma_gflops_1"`
	FMAGFLOPSAll float64 `json:"fma_gflops_all"`
}

// describeMachine describes the machine. It checks ctx between measurements, each of which takes
// peakTime.
func describeMachine(ctx context.Context) (*machineInfo, error) {
	backends, err := kernel.Available()
	if err != nil {
		return nil, err
	}
	cache := cpuid.CPU.Cache
	info := &machineInfo{
		Schema: "mquine.info/1", Machine: machine(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Cores: cpuid.CPU.PhysicalCores, Threads: runtime.GOMAXPROCS(0),
		Caches:   cacheInfo{max(cache.L1I, 0), max(cache.L1D, 0), max(cache.L2, 0), max(cache.L3, 0)},
		Features: cpuid.CPU.FeatureSet(),
		Tier:     backends[0].Tier.String(), TierReason: tierReason(backends[0].Tier),
		UsedFeatures: backends[0].Features.Names(),
	}
	info.GPUs, info.NoGPU = describeGPUs()
	for _, b := range backends {
		var rates [2]float64
		for i, threads := range [...]int{1, info.Threads} {
			rates[i] = 2 * ceiling.Terms(b, kernel.Dot).Rate(threads, peakTime) / 1e9
			if err := ctx.Err(); err != nil {
				return nil, err
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

func (m *machineInfo) print(w *bytes.Buffer) {
	t := text.NewTable()
	t.AppendRow(table.Row{"machine", m.Machine + ", " + m.OS + "/" + m.Arch})
	cores := text.Plural(m.Threads, "thread")
	if m.Cores > 0 {
		cores += " on " + text.Plural(m.Cores, "core")
	}
	t.AppendRow(table.Row{"threads", cores})
	t.AppendRow(table.Row{"caches", m.Caches.String()})
	t.AppendRow(table.Row{"vector features", strings.Join(vectorFeatures(m.Features), " ")})
	t.AppendRow(table.Row{"instruction set", m.Tier + " (" + m.TierReason + ")"})
	t.AppendRow(table.Row{"used features", cmp.Or(strings.Join(m.UsedFeatures, " "), "none")})
	if m.NoGPU != "" {
		t.AppendRow(table.Row{"GPUs", "none: " + m.NoGPU})
	}
	for _, g := range m.GPUs {
		text := fmt.Sprintf("%s, compute capability %s, %s, driver for CUDA %s",
			g.Name, g.Capability, humanize.IBytes(uint64(g.Memory)), g.Driver)
		if g.Unusable != "" {
			text += "; not used: " + g.Unusable
		}
		t.AppendRow(table.Row{fmt.Sprintf("GPU %d", g.Index), text})
	}
	fmt.Fprintf(w, "%s\n\n", t.Render())

	t = text.NewTable(2, 3)
	t.AppendHeader(table.Row{"FMA GFLOP/s", "1 thread", text.Plural(m.Threads, "thread")})
	for _, tier := range m.Tiers {
		t.AppendRow(table.Row{tier.Tier, gflops(tier.FMAGFLOPS1), gflops(tier.FMAGFLOPSAll)})
	}
	fmt.Fprintln(w, t.Render())
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

// vectorFeatures returns the features of vector and matrix units.
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

func gflops(rate float64) string { return fmt.Sprintf("%.1f", rate) }
