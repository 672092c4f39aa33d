package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Target follows the symbolic links at path to the place where the file is or will be, which need not exist. A
// link that another user put into a folder that everyone can write to, such as /tmp, is an error, as in the
// kernel's fs.protected_symlinks: a rename would go around that protection.
func Target(path string) (string, error) {
	const most = 40 // as the kernel's limit
	for range most {
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return path, nil // whatever is wrong with path, writing it says so
		}
		if err := checkLink(path, info); err != nil {
			return "", err
		}
		link, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(link) {
			// Not joined, which would take "x/.." away even where x is a link itself.
			link = filepath.Dir(path) + string(filepath.Separator) + link
		}
		folder, base := filepath.Split(link)
		if folder, err = filepath.EvalSymlinks(folder); err != nil {
			return "", err
		}
		path = filepath.Join(folder, base)
	}
	return "", errors.New("too many levels of symbolic links")
}
