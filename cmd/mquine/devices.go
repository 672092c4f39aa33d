package main

import (
	"context"
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

// open opens the GPUs that were asked for: by --backend cuda, or by --devices with --backend auto, which computes on the
// processor if they cannot be used, and says so to log.
func (g *gpus) open(c compute, log io.Writer) ([]*cuda.Device, error) {
	indices := g.indices
	if c.backend == cudaBackend && len(indices) == 0 {
		indices = []int{0}
	}
	var devices []*cuda.Device
	for _, i := range indices {
		d, err := cuda.Open(i)
		if err != nil {
			closeDevices(devices)
			if c.backend == cudaBackend {
				return nil, err
			}
			noteNoGPU(log, err)
			return nil, nil
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// orProcessor returns the error of GPUs, or with auto gives them back, tells log and returns nil: the processor
// is to compute.
func (c compute) orProcessor(ctx context.Context, err error, o *rank.Options, log io.Writer) error {
	if err == nil || len(o.Devices) == 0 || c.backend != autoBackend || ctx.Err() != nil {
		return err
	}
	noteNoGPU(log, err)
	closeDevices(o.Devices)
	o.Devices = nil
	return nil
}

func noteNoGPU(log io.Writer, err error) { printLine(log, "note: the processor computes: %v", err) }

func closeDevices(devices []*cuda.Device) {
	for _, d := range devices {
		d.Close()
	}
}

// deviceNames describes GPUs in a few words.
func deviceNames(devices []*cuda.Device) string {
	var list []string
	for _, d := range devices {
		list = append(list, fmt.Sprintf("GPU %d (%s)", d.Index, d.Name))
	}
	return strings.Join(list, " and ")
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
