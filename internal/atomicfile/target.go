package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// Target follows the symbolic links at path to the place where the file is or will be, which need not exist. inPlace
// tells that what is there cannot be replaced, only written to: a pipe, a device, a folder or an open descriptor.
//
// A link that another user put into a folder that everyone can write to, such as /tmp, is an error, as in the
// kernel's fs.protected_symlinks: a rename would go around that protection.
func Target(path string) (target string, inPlace bool, err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return path, true, nil
	}
	if target, err = follow(path); err != nil {
		return "", false, err
	}
	_, isOpen := descriptor(target)
	return target, isOpen, nil
}

func follow(path string) (string, error) {
	const most = 40 // as the kernel's limit
	for range most {
		if _, isOpen := descriptor(path); isOpen {
			return path, nil // a link only in name: the file may have none
		}
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

// openDescriptors matches the paths of a process's open descriptors.
var openDescriptors = regexp.MustCompile(`^(?:/dev/fd|/proc/(self|\d+)/fd)/(\d+)$`)

// descriptor returns the number of this process's open descriptor at path, if that is one.
func descriptor(path string) (int, bool) {
	m := openDescriptors.FindStringSubmatch(path)
	if m == nil || m[1] != "" && m[1] != "self" && m[1] != strconv.Itoa(os.Getpid()) {
		return 0, false
	}
	n, err := strconv.Atoi(m[2])
	return n, err == nil
}
