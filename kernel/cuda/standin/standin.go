// Package standin builds a libcuda.so.1 for tests. The library runs the kernels of package cuda on
// the CPU, from the same sources, and fails on request. It is far too slow to serve as a backend.
package standin

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"testing"
)

// declaration matches the declarations of kernels in a source file.
var declaration = regexp.MustCompile(`(?m)^extern "C" __global__ .*?(\w+)\(const \w+ \w+\)`)

var flags = []string{
	"-std=c++17", "-O2", "-g", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off",
	"-Wall", "-Wno-unknown-pragmas",
}

// Library builds the stand-in with g++, unless the temporary folder has a build of the same
// sources, and returns its path. It skips the test if there is no g++.
func Library(t testing.TB) string {
	t.Helper()
	compiler, err := exec.LookPath("g++")
	if err != nil || runtime.GOOS != "linux" || (runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64") {
		t.Skip("the stand-in driver needs g++ and Linux on x86-64 or arm64")
	}
	path, err := build(compiler)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var once sync.Mutex

func build(compiler string) (string, error) {
	once.Lock()
	defer once.Unlock()
	_, self, _, _ := runtime.Caller(0)
	host := filepath.Join(filepath.Dir(self), "host")
	src := filepath.Join(filepath.Dir(self), "..", "src")
	h := sha256.New()
	fmt.Fprintln(h, flags)
	var sources []string
	for _, pattern := range []string{filepath.Join(host, "*"), filepath.Join(src, "*")} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, p := range paths {
			text, err := os.ReadFile(p)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(h, "%s %d\n%s", filepath.Base(p), len(text), text)
			if filepath.Ext(p) == ".cu" {
				sources = append(sources, p)
			}
		}
	}
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("mquine-standin-%d-%s", os.Getuid(),
		hex.EncodeToString(h.Sum(nil)[:8])))
	path := filepath.Join(folder, "libcuda.so.1")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(folder, "build")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	arguments := append([]string{"-I" + host, "-I" + src, "-o", filepath.Join(work, "libcuda.so.1")}, flags...)
	arguments = append(arguments, filepath.Join(host, "standin.cc"))
	for _, p := range sources {
		text, err := os.ReadFile(p)
		if err != nil {
			return "", err
		}
		unit := fmt.Sprintf("#include \"cuda_host.h\"\n#include %q\n", p)
		for _, m := range declaration.FindAllStringSubmatch(string(text), -1) {
			unit += fmt.Sprintf("static standin::Register register_%s(%q, %s);\n", m[1], m[1], m[1])
		}
		file := filepath.Join(work, filepath.Base(p)+".cc")
		if err := os.WriteFile(file, []byte(unit), 0o600); err != nil {
			return "", err
		}
		arguments = append(arguments, file)
	}
	if out, err := exec.Command(compiler, arguments...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the stand-in: %w\n%s", err, out)
	}
	return path, os.Rename(filepath.Join(work, "libcuda.so.1"), path)
}
