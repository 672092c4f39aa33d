package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// Target follows the symbolic links at path and returns the path of the file to replace, which need
// not exist. inPlace reports whether the target is a pipe, a device, a folder or an open
// descriptor, which cannot be replaced.
//
// Target returns an error for a link that another user put into a folder that everyone can write
// to, such as /tmp. With fs.protected_symlinks, Linux does not follow such links, but a rename
// would bypass that protection.
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
	const most = 40 // Linux has the same limit
	for range most {
		if _, isOpen := descriptor(path); isOpen {
			return path, nil // the open file behind it may have no path
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return path, nil // if path is wrong, writing to it reports the error
		}
		if err := checkLink(path, info); err != nil {
			return "", err
		}
		link, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(link) {
			// filepath.Join would remove "x/..", which is wrong if x is a link.
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

// openDescriptors matches the paths of the open descriptors of a process.
var openDescriptors = regexp.MustCompile(`^(?:/dev/fd|/proc/(self|\d+)/fd)/(\d+)$`)

// descriptor returns the number of the open descriptor that path names. It returns false if path
// does not name a descriptor of this process.
func descriptor(path string) (int, bool) {
	m := openDescriptors.FindStringSubmatch(path)
	if m == nil || m[1] != "" && m[1] != "self" && m[1] != strconv.Itoa(os.Getpid()) {
		return 0, false
	}
	n, err := strconv.Atoi(m[2])
	return n, err == nil
}
