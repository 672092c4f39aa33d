//go:build linux && amd64

// Command gen compiles the CUDA C++ files to PTX with NVRTC 11.8 from Debian's packages
// libnvrtc11.2 and libnvrtc-builtins11.8 (section non-free). It replaces the files in ptx after it
// has compiled all of them, and removes PTX without a source.
//
// With -check it compiles them to machine code for sm_80, sm_86, sm_89 and sm_90 instead. For each
// kernel, it prints the registers, the shared memory, and the number of thread blocks that fit on a
// multiprocessor. It fails if a kernel spills registers or too few of its thread blocks fit.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/ebitengine/purego"

	"github.com/mquine/mquine/kernel/cuda/internal/shape"
	"github.com/mquine/mquine/kernel/cuda/internal/source"
)

// architectures are the targets of -check: A100, RTX 30, RTX 40, H100. They are the keys of
// multiprocessors.
var architectures = []string{"sm_80", "sm_86", "sm_89", "sm_90"}

// reportDim is the dimension of the matrices in the report: the largest in the paper.
const reportDim = 38

func main() {
	check := flag.Bool("check", false, "compile for all architectures and print the resources of the kernels")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	files, err := source.Read("src")
	if err != nil {
		return err
	}
	n, err := open()
	if err != nil {
		return err
	}
	if check {
		return report(n, files)
	}
	images := map[string][]byte{} // by path
	for _, f := range files {
		ptx, err := n.compile(f, source.Options, false)
		if err != nil {
			return err
		}
		if !bytes.Contains(ptx, []byte("\n.version 7.8\n.target sm_80\n")) {
			return fmt.Errorf("%s: the PTX is not ISA 7.8 for sm_80", f.Name)
		}
		images[filepath.Join("ptx", f.Name+".ptx")] = append([]byte(f.Stamp()), ptx...)
	}
	return replace("ptx", images)
}

// replace writes files to a folder and removes all other PTX from it.
func replace(folder string, files map[string][]byte) error {
	old, err := filepath.Glob(filepath.Join(folder, "*.ptx"))
	if err != nil {
		return err
	}
	for path, text := range files {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	for _, path := range old {
		if files[path] == nil {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	entry   = regexp.MustCompile(`Compiling entry function '(\w+)'`)
	spilled = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores`)
	used    = regexp.MustCompile(`Used (\d+) registers(?:.*?, (\d+) bytes smem)?`)
)

func report(n *nvrtc, files []source.File) error {
	var faults []string
	for _, arch := range architectures {
		for _, f := range files {
			options := append([]string{"--gpu-architecture=" + arch, "-Xptxas=-v"}, source.Options[1:]...)
			if _, err := n.compile(f, options, true); err != nil {
				return err
			}
			kernels, kernel := 0, ""
			for line := range strings.Lines(n.log) {
				if m := entry.FindStringSubmatch(line); m != nil {
					kernel = m[1]
					kernels++
				}
				if m := spilled.FindStringSubmatch(line); m != nil && (m[1] != "0" || m[2] != "0") {
					faults = append(faults, fmt.Sprintf("%s for %s: %s", kernel, arch, m[0]))
				}
				if m := used.FindStringSubmatch(line); m != nil {
					if m[2] == "" {
						m[2] = "0"
					}
					registers, _ := strconv.Atoi(m[1])
					static, _ := strconv.Atoi(m[2])
					shared := static + shape.Dynamic(kernel, reportDim)
					blocks := multiprocessors[arch].fit(registers, shared)
					fmt.Printf("%s %-24s %3d registers, %6d bytes of shared memory, thread blocks per SM: %d\n",
						arch, kernel, registers, shared, blocks)
					if least := atLeast(kernel, arch); blocks < least {
						faults = append(faults, fmt.Sprintf("%s for %s: only %d thread blocks fit on an SM, not %d",
							kernel, arch, blocks, least))
					}
				}
			}
			if want := strings.Count(f.Text, `extern "C" __global__`); kernels != want {
				return fmt.Errorf("%s for %s: the compiler reports %d kernels, not %d:\n%s",
					f.Name, arch, kernels, want, n.log)
			}
		}
	}
	if faults != nil {
		return errors.New("kernels spill registers or need too much of an SM:\n" + strings.Join(faults, "\n"))
	}
	return nil
}

// nvrtc holds the functions of the NVRTC library.
type nvrtc struct {
	create  func(program *uintptr, text, name *byte, headers int32, contents, names **byte) int32
	destroy func(program *uintptr) int32
	build   func(program uintptr, n int32, options **byte) int32
	logSize func(program uintptr, n *uint64) int32
	getLog  func(program uintptr, to *byte) int32
	size    [2]func(program uintptr, n *uint64) int32 // PTX, machine code
	get     [2]func(program uintptr, to *byte) int32
	// log is the compiler's log from the last compilation.
	log string
}

func open() (*nvrtc, error) {
	const library = "libnvrtc.so.11.2"
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("%w: install libnvrtc11.2 and libnvrtc-builtins11.8 from Debian non-free", err)
	}
	var version func(major, minor *int32) int32
	n := &nvrtc{}
	for name, f := range map[string]any{
		"nvrtcVersion":       &version,
		"nvrtcCreateProgram": &n.create, "nvrtcDestroyProgram": &n.destroy, "nvrtcCompileProgram": &n.build,
		"nvrtcGetProgramLogSize": &n.logSize, "nvrtcGetProgramLog": &n.getLog,
		"nvrtcGetPTXSize": &n.size[0], "nvrtcGetPTX": &n.get[0],
		"nvrtcGetCUBINSize": &n.size[1], "nvrtcGetCUBIN": &n.get[1],
	} {
		purego.RegisterLibFunc(f, handle, name)
	}
	var major, minor int32
	if version(&major, &minor); major != 11 || minor != 8 {
		return nil, fmt.Errorf("%s is NVRTC %d.%d, but mquine's PTX needs 11.8", library, major, minor)
	}
	return n, nil
}

// compile returns the PTX or the machine code of a family of kernels.
func (n *nvrtc) compile(f source.File, options []string, machine bool) ([]byte, error) {
	list := func(texts ...string) **byte {
		p := make([]*byte, len(texts))
		for i, t := range texts {
			p[i] = cString(t)
		}
		return &p[0]
	}
	var program uintptr
	if r := n.create(&program, cString(f.Text), cString(f.Name+".cu"), 1, list(f.Header), list(source.Header)); r != 0 {
		return nil, fmt.Errorf("%s: nvrtcCreateProgram failed with %d", f.Name, r)
	}
	defer n.destroy(&program)
	built := n.build(program, int32(len(options)), list(options...))
	var size uint64
	if r := n.logSize(program, &size); r != 0 {
		return nil, fmt.Errorf("%s: nvrtcGetProgramLogSize failed with %d", f.Name, r)
	}
	log := make([]byte, size+1)
	n.getLog(program, &log[0])
	n.log = string(bytes.TrimRight(log, "\x00"))
	if built != 0 {
		return nil, fmt.Errorf("%s does not compile:\n%s", f.Name, n.log)
	}
	kind := 0
	if machine {
		kind = 1
	}
	if r := n.size[kind](program, &size); r != 0 || size == 0 {
		return nil, fmt.Errorf("%s: the compiler returned no code (%d)", f.Name, r)
	}
	code := make([]byte, size)
	if r := n.get[kind](program, &code[0]); r != 0 {
		return nil, fmt.Errorf("%s: cannot read the code (%d)", f.Name, r)
	}
	if !machine {
		code = bytes.TrimRight(code, "\x00")
	}
	return code, nil
}

// cString returns s as a C string.
func cString(s string) *byte { return &append([]byte(s), 0)[0] }
