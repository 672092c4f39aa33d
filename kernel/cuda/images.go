package cuda

import "embed"

//go:generate go run ./gen

// images holds the PTX of every family of kernels. Command gen compiles it from the files in src.
//
//go:embed ptx/*.ptx
var images embed.FS

// load returns one of the embedded families of kernels, compiled for the device. The device compiles
// a family once.
func (d *Device) load(family string) (*module, error) {
	d.loading.Lock()
	defer d.loading.Unlock()
	if m := d.modules[family]; m != nil {
		return m, nil
	}
	ptx, err := images.ReadFile("ptx/" + family + ".ptx")
	if err != nil {
		return nil, err
	}
	m, err := d.compile(family, ptx)
	if err == nil {
		d.modules[family] = m
	}
	return m, err
}
