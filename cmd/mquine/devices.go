package main

import (
	"errors"
	"fmt"
	"io"
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

// gpus are the flags that say whether GPUs compute, and which.
type gpus struct {
	indices []int
}

// addWithDevices adds the flags of compute, with GPUs among the backends.
func (c *compute) addWithDevices(cmd *cobra.Command, g *gpus) {
	c.setDefaults()
	addChoice(cmd, &c.backend, "backend", "`what` computes: auto is the best instruction set, or --devices; cuda requires GPUs",
		autoBackend, cudaBackend, kernel.AVX512.String(), kernel.AVX2.String(), kernel.Generic.String())
	cmd.Flags().Var(deviceList{&g.indices}, "devices", "`numbers` of the GPUs that share the candidates, as mquine info lists them (default 0)")
	cmd.Flags().Var(positive{&c.threads, maxThreads}, "threads", "`number` of threads")
}

// deviceList is a flag that takes different numbers from 0, separated by commas.
type deviceList struct{ indices *[]int }

func (d deviceList) String() string { return strings.Join(names(*d.indices), ",") }
func (d deviceList) Type() string   { return "numbers" }

func (d deviceList) Set(list string) error {
	var indices []int
	for _, s := range strings.Split(list, ",") {
		i, err := strconv.ParseUint(s, 10, 16)
		if err != nil {
			return errors.New("must be numbers of GPUs from 0 to 65535, separated by commas, such as 0,1")
		}
		if slices.Contains(indices, int(i)) {
			return fmt.Errorf("%d is given twice", i)
		}
		indices = append(indices, int(i))
	}
	*d.indices = indices
	return nil
}

// check tells what is wrong with the flags together.
func (g *gpus) check(c compute) error {
	if len(g.indices) > 0 && c.backend != autoBackend && c.backend != cudaBackend {
		return fmt.Errorf("--devices names GPUs, and --backend %s uses none", c.backend)
	}
	return nil
}

// open opens the GPUs that were asked for, if any: by --backend cuda, or by --devices with --backend auto, which computes
// on the processor if they cannot be used, and says so to log. The caller calls close when done.
func (g *gpus) open(c compute, log io.Writer, m *meter) (e rank.Engine, close func(), err error) {
	none := func() {}
	indices := g.indices
	if c.backend == cudaBackend && len(indices) == 0 {
		indices = []int{0}
	}
	if len(indices) == 0 {
		return nil, none, nil
	}
	note := func(err error) {
		m.clear()
		printLine(log, "note: the processor computes: %v", err)
	}
	opened, err := gpu.Open(indices...)
	switch {
	case err != nil && c.backend == cudaBackend:
		return nil, none, err
	case err != nil:
		note(err)
		return nil, none, nil
	case c.backend != cudaBackend:
		opened.OrProcessor(note)
	}
	return opened, opened.Close, nil
}

// gpuInfo is a GPU in the result of `mquine info`.
type gpuInfo struct {
	Index      int    `json:"index"`
	Name       string `json:"name"`
	Capability string `json:"compute_capability"`
	Memory     int64  `json:"memory_bytes"`
	Driver     string `json:"driver_cuda"`
	// Unusable says why rankings cannot use it.
	Unusable string `json:"unusable,omitempty"`
}

// describeGPUs lists the GPUs, or says why there are none.
func describeGPUs() (list []gpuInfo, none string) {
	infos, err := cuda.List()
	if err != nil {
		return nil, strings.TrimPrefix(err.Error(), "cuda: ")
	}
	for _, d := range infos {
		g := gpuInfo{Index: d.Index, Name: d.Name, Capability: fmt.Sprintf("%d.%d", d.Capability/10, d.Capability%10), Memory: d.Memory, Driver: d.Driver}
		if err := d.Usable(); err != nil {
			g.Unusable = strings.TrimPrefix(err.Error(), "cuda: ")
		}
		list = append(list, g)
	}
	return list, ""
}
