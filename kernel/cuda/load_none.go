//go:build !linux || !(amd64 || arm64) || nocuda

package cuda

import "fmt"

// load fails: purego, through which the driver is called, is not part of this build.
func (l *library) load() error {
	return fmt.Errorf("%w for this build of mquine, which has no GPU support: use one for Linux on x86-64 or arm64 that was built without the tag nocuda", ErrNoDriver)
}
