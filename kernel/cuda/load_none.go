//go:build !linux || !(amd64 || arm64) || nocuda

package cuda

import "fmt"

// load returns an error: this build lacks purego, which calls the driver.
func (l *library) load() error {
	return fmt.Errorf("%w: this build of mquine has no GPU support: "+
		"use a build for Linux on x86-64 or arm64 without the tag nocuda", errNoDriver)
}
