package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	wrap "github.com/jedib0t/go-pretty/v6/text"
	"github.com/klauspost/cpuid/v2"
	"github.com/spf13/cobra"

	"github.com/mquine/mquine/internal/atomicfile"
	"github.com/mquine/mquine/internal/input"
	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/internal/text"
	"github.com/mquine/mquine/kernel"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/kg/catalogue"
	"github.com/mquine/mquine/train/recipe"
)

func newDoctorCommand() *cobra.Command {
	var jsonFile string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the machine and the installation",
		Long: `Check the machine and the installation, and say what to fix.

The command checks the processor and the instruction set that the kernels use,
the limits on threads, memory and open files, the data folder and the data sets
in it, free disk space, GPUs and the terminal. Every line is "ok", a "note" or a
"problem". The exit status is 1 if there is a problem.

The command also measures the rate of fused multiply-adds (FMA) of each
instruction set, on one thread and on all threads. "mquine eval --peak" relates
a ranking to this rate.`,
		Example: `  mquine doctor
  mquine doctor --json machine.json`,
		Args:        noArgs,
		Annotations: map[string]string{allData: ""},
		RunE:        func(cmd *cobra.Command, _ []string) error { return doctor(cmd, jsonFile) },
	}
	jsonFlag(cmd, &jsonFile)
	return cmd
}

// The results of a check.
const (
	checkOK      = "ok"
	checkNote    = "note"
	checkProblem = "problem"
)

// check is a line of the diagnosis.
type check struct {
	Status  string `json:"status"`
	Subject string `json:"subject"`
	Finding string `json:"finding"`
	Fix     string `json:"fix,omitempty"`
}

// diagnosis is the JSON result of `mquine doctor`.
type diagnosis struct {
	Schema  string `json:"schema"`
	Version string `json:"version"`
	machineInfo
	Checks []check `json:"checks"`
}

func (d *diagnosis) ok(subject, finding string) {
	d.Checks = append(d.Checks, check{checkOK, subject, finding, ""})
}

func (d *diagnosis) note(subject, finding, fix string) {
	d.Checks = append(d.Checks, check{checkNote, subject, finding, fix})
}

func (d *diagnosis) problem(subject, finding, fix string) {
	d.Checks = append(d.Checks, check{checkProblem, subject, finding, fix})
}

// count returns the number of checks with the given status.
func (d *diagnosis) count(status string) (n int) {
	for _, c := range d.Checks {
		if c.Status == status {
			n++
		}
	}
	return n
}

func doctor(cmd *cobra.Command, jsonFile string) error {
	d := &diagnosis{Schema: "mquine.doctor/1", Version: version()}
	if err := d.examine(cmd.Context(), cmd.OutOrStdout()); err != nil {
		return err
	}
	if err := writeResult(cmd, jsonFile, d); err != nil {
		return err
	}
	if n := d.count(checkProblem); n > 0 {
		return fmt.Errorf("found %s", text.Plural(n, "problem"))
	}
	return nil
}

// examine runs all checks. out is standard output. examine returns an error only if ctx is
// cancelled.
func (d *diagnosis) examine(ctx context.Context, out io.Writer) (err error) {
	backends, restricted := kernel.Available()
	if d.machineInfo, err = describeMachine(ctx, backends); err != nil {
		return err
	}
	d.checkProcessor(restricted)
	if len(backends) > 0 {
		d.checkProducts(backends[0])
	}
	d.checkMemory(proc.AvailableMemory())
	if n, known := openFilesLimit(); known && n < 64 {
		d.problem("open files", fmt.Sprintf("at most %d", n), "Raise the limit: ulimit -n 1024")
	} else if known {
		d.ok("open files", "at most "+text.Comma(n))
	}
	if err := d.checkData(ctx); err != nil {
		return err
	}
	d.checkGPUs()
	d.checkTerminal(out, os.Getenv)
	return nil
}

// checkProcessor checks threads and kernels. restricted is the error about an invalid environment
// variable, or nil.
func (d *diagnosis) checkProcessor(restricted error) {
	finding := d.Machine
	if d.Cores > 0 {
		finding += ", " + text.Plural(d.Cores, "core")
	}
	d.ok("processor", finding)
	d.ok("caches", d.Caches.String())
	d.ok("features", strings.Join(vectorFeatures(d.Features), " "))
	if all := runtime.NumCPU(); d.Threads < all {
		d.note("threads", fmt.Sprintf("%d, but this process may use %d processors", d.Threads, all),
			"Unset GOMAXPROCS, or raise the processor limit of the container.")
	} else {
		d.ok("threads", fmt.Sprint(d.Threads))
	}

	kernels := d.Tier
	extensions := slices.DeleteFunc(slices.Clone(d.UsedFeatures), func(name string) bool {
		_, err := kernel.ParseTier(name)
		return err == nil // a feature with the name of a tier
	})
	if len(extensions) > 0 {
		kernels += " with " + strings.Join(extensions, ", ")
	}
	kernels += fmt.Sprintf(" (%s)", d.TierReason)
	amx := cpuid.CPU.Supports(cpuid.AMXTILE, cpuid.AMXINT8) && d.Tier == kernel.AVX512.String()
	switch set := kernel.Restrictions(); {
	case restricted != nil:
		d.problem("kernels", restricted.Error(), "Correct the variable or unset it.")
	case set != "":
		d.note("kernels", kernels, "Unset the variable for full speed. The ranks are the same.")
	case d.Tier == kernel.Generic.String():
		d.note("kernels", kernels, "The fast kernels need a build with assembly and an x86-64 processor with AVX2.")
	case amx && !slices.Contains(d.UsedFeatures, "amx"):
		d.note("kernels", kernels+", without AMX, which the system does not allow", "Linux 5.16 and later allow AMX.")
	default:
		d.ok("kernels", kernels)
	}
}

// checkProducts names the kinds of arithmetic that training offers on this machine.
func (d *diagnosis) checkProducts(b *kernel.Backend) {
	var names []string
	for _, p := range recipe.AvailableProducts(b) {
		names = append(names, string(p))
	}
	d.ok("products", strings.Join(names, ", ")+" (mquine train --products)")
}

func (d *diagnosis) checkMemory(room proc.Room) {
	const (
		little = 1 << 30
		least  = 128 << 20
	)
	finding := fmt.Sprintf("%s available (%s)", humanize.IBytes(uint64(room.Bytes)), room.Limit)
	const fix = "Close other programs, raise the limit, or use another machine."
	switch {
	case room == proc.Unlimited:
		d.ok("memory", "the system does not report how much is available")
	case room.Bytes < least:
		d.problem("memory", finding, fix)
	case room.Bytes < little:
		d.note("memory", finding, "Large data sets need more. "+fix)
	default:
		d.ok("memory", finding)
	}
}

// checkData checks the data folder, the data sets in it and the free disk space.
func (d *diagnosis) checkData(ctx context.Context) error {
	const subject = "data folder"
	dir, err := kg.DataDir()
	if err != nil {
		d.problem(subject, err.Error(), "")
		return nil
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.note(subject, dir+" does not exist", `"mquine data get umls" creates it. Or set MQUINE_DATA to another folder.`)
	case err != nil:
		d.problem(subject, fmt.Sprintf("%s: %v", dir, text.Cause(err)), "Set MQUINE_DATA to another folder.")
	case !info.IsDir():
		d.problem(subject, dir+" is not a folder", "Set MQUINE_DATA to a folder.")
	default:
		probe, err := atomicfile.TemporaryFolder(dir, "doctor")
		if err != nil {
			d.note(subject, fmt.Sprintf("%s can be read but not written: %v", dir, text.Cause(errors.Unwrap(err))),
				"To install data sets, set MQUINE_DATA to another folder.")
		} else {
			_ = probe.Remove()
			d.ok(subject, dir)
		}
		if err := d.checkDatasets(ctx, dir); err != nil {
			return err
		}
		d.checkDisk("the data folder", dir)
	}
	if work, err := os.Getwd(); err == nil {
		d.checkDisk("the working folder", work)
	}
	return nil
}

// checkDatasets compares the data sets that are installed in dir with the catalogue.
func (d *diagnosis) checkDatasets(ctx context.Context, dir string) error {
	const subject = "data sets"
	present, err := input.Await(ctx, kg.Installed)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		d.problem(subject, err.Error(), "Make the data folder readable, or set MQUINE_DATA to another folder.")
		return nil
	}
	flawed := 0
	for _, public := range catalogue.All() {
		set, err := input.Await(ctx, func() (listedData, error) { return listPublic(ctx, public, dir) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case err != nil:
			d.problem(subject, fmt.Sprintf("%s cannot be read: %v", public.Name, err),
				fmt.Sprintf(`Make %s readable, or remove it and run "mquine data get %s".`,
					filepath.Join(dir, public.Name), public.Name))
		case !slices.Contains(present, public.Name):
		case len(set.Differing) > 0:
			flawed++
			files := strings.Join(set.Differing, ", ")
			d.problem(subject, fmt.Sprintf("%s differs from the catalogue in %s", set.Name, files),
				fmt.Sprintf(`Remove the files and run "mquine data get %s".`, set.Name))
		case len(set.Missing) > 0:
			flawed++
			d.note(subject, fmt.Sprintf("%s lacks %s", set.Name, strings.Join(set.Missing, ", ")),
				fmt.Sprintf(`"mquine data get %s" completes it.`, set.Name))
		}
	}
	finding := fmt.Sprintf("%d installed", len(present))
	if flawed > 0 {
		finding += fmt.Sprintf(", %d of them incomplete or different", flawed)
	}
	d.ok(subject, finding)
	return nil
}

// checkDisk checks the free space in a folder, which name describes.
func (d *diagnosis) checkDisk(name, dir string) {
	const (
		subject = "disk"
		little  = 1 << 30
		least   = 64 << 20
	)
	free, known := proc.FreeDisk(dir)
	finding := fmt.Sprintf("%s free in %s", humanize.IBytes(uint64(free)), name)
	switch {
	case !known:
	case free < least:
		d.problem(subject, finding+", "+dir, "Free some disk space.")
	case free < little:
		d.note(subject, finding+", "+dir, "Large data sets and checkpoints need more.")
	default:
		d.ok(subject, finding)
	}
}

func (d *diagnosis) checkGPUs() {
	if d.NoGPU != "" {
		d.ok("GPUs", "none: "+d.NoGPU)
	}
	for _, g := range d.GPUs {
		subject := fmt.Sprintf("GPU %d", g.Index)
		finding := fmt.Sprintf("%s, compute capability %s, %s, driver for CUDA %s",
			g.Name, g.Capability, humanize.IBytes(uint64(g.Memory)), g.Driver)
		if g.Unusable != "" {
			d.note(subject, finding, "It is not used: "+g.Unusable)
		} else {
			d.ok(subject, finding)
		}
	}
}

// checkTerminal checks whether standard output can show tables. getenv returns environment
// variables.
func (d *diagnosis) checkTerminal(out io.Writer, getenv func(string) string) {
	const subject = "terminal"
	if !text.OnTerminal(out) {
		d.ok(subject, "standard output is not a terminal")
		return
	}
	locale := cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG"))
	unicode := strings.Contains(strings.ReplaceAll(strings.ToLower(locale), "-", ""), "utf8")
	columns := text.Width(out)
	finding := fmt.Sprintf("%d columns", columns)
	switch {
	case columns > 0 && columns < helpWidth:
		d.note(subject, finding, fmt.Sprintf("Tables and help texts need %d.", helpWidth))
	case runtime.GOOS != "windows" && !unicode:
		d.note(subject, fmt.Sprintf("%s, locale %q", finding, locale), "Set LC_ALL=C.UTF-8 to see all characters.")
	default:
		d.ok(subject, finding)
	}
}

// print prints the checks and the measured rates in at most helpWidth columns.
func (d *diagnosis) print(w io.Writer) {
	const subjects, gaps = 11, 4
	fmt.Fprintf(w, "mquine %s\n\n", d.Version)
	t := text.NewTable()
	for _, c := range d.Checks {
		room := helpWidth - len(checkProblem) - subjects - gaps
		lines := strings.Split(wrap.WrapSoft(text.Escape(c.Finding), room), "\n")
		if c.Fix != "" {
			lines = append(lines, strings.Split(wrap.WrapSoft(text.Escape(c.Fix), room), "\n")...)
		}
		for i, line := range lines {
			if i == 0 {
				t.AppendRow(table.Row{c.Status, c.Subject, line})
			} else {
				t.AppendRow(table.Row{"", "", line})
			}
		}
	}
	fmt.Fprintf(w, "%s\n\n", t.Render())

	if len(d.Tiers) > 0 {
		t = text.NewTable(2, 3)
		columns := 3
		if d.Threads == 1 { // both rates are for one thread
			columns = 2
		}
		t.AppendHeader(table.Row{"FMA GFLOP/s", "1 thread", text.Plural(d.Threads, "thread")}[:columns])
		for _, tier := range d.Tiers {
			one, all := fmt.Sprintf("%.1f", tier.FMAGFLOPS1), fmt.Sprintf("%.1f", tier.FMAGFLOPSAll)
			t.AppendRow(table.Row{tier.Tier, one, all}[:columns])
		}
		fmt.Fprintf(w, "%s\n\n", t.Render())
	}
	fmt.Fprintf(w, "%s, %s\n", text.Plural(d.count(checkProblem), "problem"), text.Plural(d.count(checkNote), "note"))
}
