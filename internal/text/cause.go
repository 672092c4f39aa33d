package text

import (
	"errors"
	"io/fs"
	"os"
)

// Cause returns the cause of a failed file operation without the system call and the path, for
// messages that name the path themselves.
func Cause(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	if link := (*os.LinkError)(nil); errors.As(err, &link) {
		return link.Err
	}
	return err
}
