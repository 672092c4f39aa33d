package cuda

import "embed"

//go:generate go run ./gen

// images holds the PTX of every family of kernels. Command gen compiles it from the files in src.
//
//go:embed ptx/*.ptx
var images embed.FS

// Load compiles one of the embedded families of kernels for the device.
func (d *Device) Load(family string) (*Module, error) {
	ptx, err := images.ReadFile("ptx/" + family + ".ptx")
	if err != nil {
		return nil, err
	}
	return d.compile(family, ptx)
}
