// Command release writes the files of a release into a folder: archives of the command mquine with
// its manual pages and shell completions, one for each build; Python wheels that contain the
// command; and SHA256SUMS.
//
//	go run ./internal/release -out dist
//	go run ./internal/release -out dist -targets linux/amd64
//
// The program builds the commit HEAD in a fresh clone. Go derives the version from the tags of the
// repository. The same commit gives the same bytes: times in the files come from the commit or from
// SOURCE_DATE_EPOCH, and the files contain no paths of this machine.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mquine/mquine/internal/atomicfile"
)

// target is a build of the command for a system.
type target struct {
	os, arch string
	// gpu selects a build with GPU support, which needs the dynamic loader of the system. All other
	// builds are static.
	gpu bool
	// wheel lists the platform tags of the wheel. If it is empty, there is no wheel.
	wheel string
}

// targets are the builds of a release. Go requires at least Linux 3.2 and macOS 12.
var targets = []target{
	{os: "linux", arch: "amd64", wheel: "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64"},
	{os: "linux", arch: "arm64", wheel: "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64"},
	{os: "linux", arch: "amd64", gpu: true},
	{os: "linux", arch: "arm64", gpu: true},
	{os: "darwin", arch: "arm64", wheel: "macosx_12_0_arm64"},
	{os: "darwin", arch: "amd64", wheel: "macosx_12_0_x86_64"},
	{os: "windows", arch: "amd64", wheel: "win_amd64"},
}

// name returns the name of the target in archives, such as "linux-amd64".
func (t target) name() string {
	name := t.os + "-" + t.arch
	if t.gpu {
		name += "-cuda"
	}
	return name
}

// command returns the file name of the command.
func (t target) command() string {
	if t.os == "windows" {
		return "mquine.exe"
	}
	return "mquine"
}

func main() {
	out := flag.String("out", "dist", "write to this `folder`")
	only := flag.String("targets", "", "build only for a `list` of systems, such as linux/amd64,windows/amd64")
	flag.Parse()
	if err := run(*out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(out, only string) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	work, err := atomicfile.TemporaryFolder(out, "release")
	if err != nil {
		return err
	}
	defer work.Remove()

	r, err := newRelease(work.Path)
	if err != nil {
		return err
	}
	sums := &bytes.Buffer{}
	for _, t := range chosen {
		files, err := r.pack(t)
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := atomicfile.WriteBytes(filepath.Join(out, f.name), f.data); err != nil {
				return err
			}
			fmt.Fprintf(sums, "%x  %s\n", sha256.Sum256(f.data), f.name)
			fmt.Printf("%7.1f MB  %s\n", float64(len(f.data))/1e6, filepath.Join(out, f.name))
		}
	}
	return atomicfile.WriteBytes(filepath.Join(out, "SHA256SUMS"), sums.Bytes())
}

// choose returns the targets of a list such as "linux/amd64", or all targets if the list is empty.
// A system stands for its builds with and without GPU support.
func choose(list string) ([]target, error) {
	if list == "" {
		return targets, nil
	}
	var chosen []target
	for _, system := range strings.Split(list, ",") {
		n := len(chosen)
		for _, t := range targets {
			if t.os+"/"+t.arch == system {
				chosen = append(chosen, t)
			}
		}
		if len(chosen) == n {
			return nil, fmt.Errorf("no release is built for %q", system)
		}
	}
	return chosen, nil
}

// release holds what all archives and wheels share.
type release struct {
	// source is a clone of the repository, and built is the folder of the compiled commands.
	source, built string
	version       string    // such as "v1.2.3"
	time          time.Time // modification time of all files
	// documents are the files that archives have besides the command.
	documents []entry
	// modules are the files of the Python package without the command.
	modules []entry
	readme  []byte // README of the Python package
	license []byte
}

// newRelease prepares a release of the commit HEAD in the folder work.
func newRelease(work string) (*release, error) {
	work, err := filepath.Abs(work)
	if err != nil {
		return nil, err
	}
	r := &release{source: filepath.Join(work, "source"), built: filepath.Join(work, "built")}
	clone := exec.Command("git", "-c", "advice.detachedHead=false", "clone", "--quiet", "--shared", ".", r.source)
	if _, err := output(clone); err != nil {
		return nil, err
	}
	native := target{os: runtime.GOOS, arch: runtime.GOARCH}
	command, err := r.build(native)
	if err != nil {
		return nil, err
	}
	if err := r.stamp(command); err != nil {
		return nil, err
	}
	return r, r.addDocuments(command, filepath.Join(work, "man"))
}

// output runs a command and returns its standard output.
func output(c *exec.Cmd) ([]byte, error) {
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w", strings.Join(c.Args, " "), err)
	}
	return out, nil
}

// build compiles the command for a target, unless that has been done already, and returns its path.
func (r *release) build(t target) (string, error) {
	path := filepath.Join(r.built, t.name(), t.command())
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	tags := "nocuda"
	if t.gpu {
		tags = ""
	}
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-tags="+tags, "-ldflags=-s -w", "-o", path,
		"./cmd/mquine")
	build.Dir = r.source
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOEXPERIMENT=")
	_, err := output(build)
	return path, err
}

// stamp sets the version and the time from the build information of a command. SOURCE_DATE_EPOCH
// overrides the time.
func (r *release) stamp(command string) error {
	info, err := buildinfo.ReadFile(command)
	if err != nil {
		return err
	}
	r.version = info.Main.Version
	if seconds := os.Getenv("SOURCE_DATE_EPOCH"); seconds != "" {
		n, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH: %q is not a number of seconds", seconds)
		}
		r.time = time.Unix(n, 0).UTC()
		return nil
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			r.time, err = time.Parse(time.RFC3339, s.Value)
			return err
		}
	}
	return fmt.Errorf("%s does not say from which commit it was built", command)
}

// addDocuments adds the documents in the repository, the completions that the command prints, and
// the manual pages, which it first writes to the folder manual. It also reads the files of the
// Python package.
func (r *release) addDocuments(command, manual string) error {
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		data, err := os.ReadFile(filepath.Join(r.source, name))
		if err != nil {
			return err
		}
		r.documents = append(r.documents, entry{name: name, data: data})
	}
	r.license = r.documents[0].data
	for _, c := range []struct{ shell, name string }{
		{"bash", "mquine.bash"}, {"zsh", "_mquine"}, {"fish", "mquine.fish"}, {"powershell", "mquine.ps1"},
	} {
		data, err := output(exec.Command(command, "completion", c.shell))
		if err != nil {
			return err
		}
		r.documents = append(r.documents, entry{name: "completions/" + c.name, data: data})
	}
	// A test writes the manual, because only package main has the tree of commands.
	write := exec.Command("go", "test", "-trimpath", "-run=^TestManual$", "./cmd/mquine", "-manual="+manual)
	write.Dir = r.source
	write.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix()))
	if report, err := output(write); err != nil {
		return fmt.Errorf("%w\n%s", err, report)
	}
	pages, err := readFolder(manual)
	if err != nil {
		return err
	}
	for _, p := range pages {
		r.documents = append(r.documents, entry{name: "man/man1/" + p.name, data: p.data})
	}
	if r.readme, err = os.ReadFile(filepath.Join(r.source, "python", "README.md")); err != nil {
		return err
	}
	r.modules, err = readFolder(filepath.Join(r.source, "python", "mquine"))
	return err
}

// readFolder returns the files in a folder, in the order of their names.
func readFolder(dir string) (files []entry, err error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		if !e.Type().IsRegular() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, entry{name: e.Name(), data: data})
	}
	return files, nil
}

// pack returns the archive and the wheel of a target.
func (r *release) pack(t target) (files []entry, err error) {
	path, err := r.build(t)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	command := entry{name: t.command(), data: data, executable: true}
	name := fmt.Sprintf("mquine-%s-%s", r.version, t.name())
	var inside []entry
	for _, e := range slices.Concat([]entry{command}, r.documents) {
		e.name = name + "/" + e.name
		inside = append(inside, e)
	}
	archive, extension := tarball, ".tar.gz"
	if t.os == "windows" {
		archive, extension = zipped, ".zip"
	}
	if data, err = archive(inside, r.time); err != nil {
		return nil, err
	}
	files = append(files, entry{name: name + extension, data: data})
	if t.wheel == "" {
		return files, nil
	}
	wheel, err := r.wheel(t, command)
	return append(files, wheel), err
}
