//go:build linux && (amd64 || arm64) && !nocuda

package standin

import (
	"testing"

	"github.com/ebitengine/purego"
)

// Driver controls the stand-in.
type Driver struct {
	t    testing.TB
	set  func(name string, value int64) int32
	held func(bytes *int64, contexts, open *int32) int32
	size func(kernel string) int32
	runs func(kernel string) int32
	made func() int32
}

// defaults are the settings that Set can change.
var defaults = map[string]int64{
	"devices":    1,        // number of devices
	"driver":     12040,    // version of the driver
	"capability": 86,       // compute capability of the devices, times ten
	"shared":     99 << 10, // bytes of shared memory that a thread block can have
	"memory":     4 << 30,  // bytes of memory of each device
	"init":       0,        // result of cuInit

	// If n > 0, the n-th such call from now on fails, or the n-th launch loses its device. Allocations
	// of device memory, of page-locked memory, of streams and of events fail for lack of memory.
	"fail_alloc": 0, "fail_pin": 0, "fail_stream": 0, "fail_event": 0, "fail_launch": 0, "lose": 0,

	"careless": 0, // bits that tensor cores lose beyond the assumption
}

// Use makes package cuda use the stand-in until the end of the test.
func Use(t testing.TB) *Driver {
	t.Helper()
	path := Library(t)
	t.Setenv("MQUINE_LIBCUDA", path)
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	d := &Driver{t: t}
	purego.RegisterLibFunc(&d.set, handle, "standin_set")
	purego.RegisterLibFunc(&d.held, handle, "standin_held")
	purego.RegisterLibFunc(&d.size, handle, "standin_size")
	purego.RegisterLibFunc(&d.runs, handle, "standin_launches")
	purego.RegisterLibFunc(&d.made, handle, "standin_streams")
	t.Cleanup(func() {
		for name := range defaults {
			d.Reset(name)
		}
	})
	return d
}

// Set changes a setting.
func (d *Driver) Set(name string, value int64) {
	d.t.Helper()
	if d.set(name, value) != 0 {
		d.t.Fatalf("the stand-in has no setting %s", name)
	}
}

// Reset sets a setting to its default.
func (d *Driver) Reset(name string) { d.Set(name, defaults[name]) }

// Held returns how many bytes of device memory and page-locked memory, how many contexts, and how many
// streams and events have not been released.
func (d *Driver) Held() (bytes int64, contexts, open int) {
	var c, o int32
	d.held(&bytes, &c, &o)
	return bytes, int(c), int(o)
}

// ArgumentSize returns the size of a kernel's argument in bytes, or −1 if there is no such kernel.
func (d *Driver) ArgumentSize(kernel string) int { return int(d.size(kernel)) }

// Streams returns how many streams the process has created.
func (d *Driver) Streams() int { return int(d.made()) }

// Launches returns how often the process has launched a kernel, or −1 for an unknown kernel.
func (d *Driver) Launches(kernel string) int { return int(d.runs(kernel)) }
