//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"reflect"

	"github.com/ebitengine/purego"
)

// load opens the library and binds its functions to the fields of l.
func (l *library) load() error { return load(l.path, l) }

// load sets the fields with a tag of the structure that functions points to to the functions of a
// library.
func load(path string, functions any) error {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return fmt.Errorf("%w: %w; install the driver or set %s to its library", errNoDriver, err, LibraryEnv)
	}
	v := reflect.ValueOf(functions).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("cuda")
		if name == "" {
			continue
		}
		symbol, err := purego.Dlsym(handle, name)
		if err != nil {
			_ = purego.Dlclose(handle)
			return fmt.Errorf("cuda: %s has no function %s: it is not an NVIDIA driver or is older than CUDA %s",
				path, name, versionString(MinDriver))
		}
		purego.RegisterFunc(v.Field(i).Addr().Interface(), symbol)
	}
	return nil
}
