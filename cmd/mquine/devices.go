package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kernel/cuda"
	"github.com/mquine/mquine/rank"
	"github.com/mquine/mquine/rank/gpu"
)

const cudaBackend = "cuda"

// onProcessor ends errors of GPUs that the command requires.
const onProcessor = "to rank on the processor, use --backend auto"

// gpus holds the flag that selects GPUs.
type gpus struct {
	indices []int
}

// addWithDevices adds the flags of a command that computes on the processor or on GPUs.
func (c *compute) addWithDevices(cmd *cobra.Command, g *gpus) {
	c.setDefaults()
	addChoice(cmd, &c.backend, "backend",
		"compute with: auto (--devices if given, else the best instruction set), cuda (GPUs, or an error), "+
			"avx512, avx2 or generic",
		autoBackend, cudaBackend, kernel.AVX512.String(), kernel.AVX2.String(), kernel.Generic.String())
	cmd.Flags().Var(deviceList{&g.indices}, "devices",
		"share the candidates among the GPUs with these numbers (see mquine doctor; default 0 with --backend cuda); "+
			"if a GPU cannot be used, a note says so, and the processor computes instead")
	cmd.Flags().Var(positive{&c.threads, maxThreads}, "threads", "number of threads")
	inGroup(cmd, machineFlags, "backend", "devices", "threads")
}

// deviceList is a flag whose value is a comma-separated list of distinct GPU numbers, which start
// at 0.
type deviceList struct{ indices *[]int }

func (d deviceList) String() string { return strings.Join(names(*d.indices), ",") }
func (d deviceList) Type() string   { return "LIST" }

func (d deviceList) Set(list string) error {
	var indices []int
	for _, s := range strings.Split(list, ",") {
		i, err := strconv.ParseUint(s, 10, 16)
		if err != nil {
			return errors.New("must be GPU numbers from 0 to 65535, separated by commas, such as 0,1")
		}
		if slices.Contains(indices, int(i)) {
			return fmt.Errorf("%d is given twice", i)
		}
		indices = append(indices, int(i))
	}
	*d.indices = indices
	return nil
}

// check refuses --devices if --backend names an instruction set.
func (g *gpus) check(c compute) error {
	if len(g.indices) > 0 && c.backend != autoBackend && c.backend != cudaBackend {
		return fmt.Errorf("--devices needs --backend auto or cuda: --backend %s uses the processor", c.backend)
	}
	return nil
}

// open opens the GPUs that the flags select. It returns a nil engine if they select none. With
// --backend cuda, a GPU that cannot be used is an error. With --devices alone, the processor computes
// instead, after a call of note. The caller must call close.
func (g *gpus) open(c compute, note func(error)) (e rank.Engine, close func(), err error) {
	none := func() {}
	indices := g.indices
	if c.backend == cudaBackend && len(indices) == 0 {
		indices = []int{0}
	}
	if len(indices) == 0 {
		return nil, none, nil
	}
	opened, err := gpu.Open(indices...)
	switch {
	case err != nil && c.backend == cudaBackend:
		return nil, none, fmt.Errorf("%w; %s", err, onProcessor)
	case err != nil:
		note(err)
		return nil, none, nil
	case c.backend != cudaBackend:
		opened.OrProcessor(note)
	}
	return opened, opened.Close, nil
}

// gpuInfo describes a GPU in the result of `mquine doctor`.
type gpuInfo struct {
	Index      int    `json:"index"`
	Name       string `json:"name"`
	Capability string `json:"compute_capability"`
	Memory     int64  `json:"memory_bytes"`
	Driver     string `json:"driver_cuda"`
	// Unusable says why rankings cannot use the GPU, or is empty.
	Unusable string `json:"unusable,omitempty"`
}

// describeGPUs returns the GPUs, or says why there are none.
func describeGPUs() (list []gpuInfo, none string) {
	list = []gpuInfo{}
	infos, err := cuda.List()
	if err != nil {
		return list, strings.TrimPrefix(err.Error(), "cuda: ")
	}
	for _, d := range infos {
		g := gpuInfo{
			Index: d.Index, Name: d.Name, Capability: fmt.Sprintf("%d.%d", d.Capability/10, d.Capability%10),
			Memory: d.Memory, Driver: d.Driver,
		}
		if err := d.Usable(); err != nil {
			g.Unusable = strings.TrimPrefix(err.Error(), "cuda: ")
		}
		list = append(list, g)
	}
	return list, ""
}
