package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/proc"
	"github.com/mquine/mquine/kernel"
)

// parsed is the part of the JSON result that the tests check.
type parsed struct {
	Schema   string         `json:"schema"`
	Version  string         `json:"version"`
	Machine  string         `json:"machine"`
	Threads  int            `json:"threads"`
	Caches   map[string]int `json:"caches"`
	Features []string       `json:"features"`
	Tier     string         `json:"tier"`
	Used     []string       `json:"used_features"`
	Tiers    []struct {
		Tier string  `json:"tier"`
		One  float64 `json:"fma_gflops_1"`
		All  float64 `json:"fma_gflops_all"`
	} `json:"tiers"`
	Checks []check `json:"checks"`
}

// of returns the checks of a subject.
func (p parsed) of(subject string) (found []check) {
	for _, c := range p.Checks {
		if c.Subject == subject {
			found = append(found, c)
		}
	}
	return found
}

// diagnosed decodes the JSON that doctor printed to standard output.
func diagnosed(t *testing.T, o outcome) (p parsed) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &p), o.stderr)
	return p
}

func TestDoctor(t *testing.T) {
	t.Setenv("MQUINE_DATA", t.TempDir())
	path := filepath.Join(t.TempDir(), "machine.json")
	o := succeed(t, "doctor", "--json", path)
	assert.Empty(t, o.stderr)
	for line := range strings.Lines(o.stdout) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), helpWidth, line)
	}
	var p parsed
	require.NoError(t, json.Unmarshal(must1(os.ReadFile(path)), &p))
	assert.Equal(t, "mquine.doctor/1", p.Schema)
	assert.Equal(t, version(), p.Version)
	assert.Equal(t, runtime.GOMAXPROCS(0), p.Threads)
	assert.Contains(t, p.Caches, "l2_bytes")
	assert.Contains(t, p.of("processor")[0].Finding, p.Machine)

	backends, err := kernel.Available()
	require.NoError(t, err)
	require.Len(t, p.Tiers, len(backends))
	assert.Equal(t, backends[0].Tier.String(), p.Tier)
	assert.Equal(t, backends[0].Features.Names(), p.Used)
	products := "float32"
	if backends[0].Features.Has(kernel.FeatureAVX512BF16) {
		products += ", bf16"
	}
	if backends[0].Features.Has(kernel.FeatureAMXBF16 | kernel.FeatureAVX512BF16) {
		products += ", bf16-amx"
	}
	if backends[0].Features.Has(kernel.FeatureAMXBF16) {
		products += ", bf16x2"
	}
	assert.Equal(t, []check{{checkOK, "products", products + " (mquine train --products)", ""}}, p.of("products"))
	for i, tier := range p.Tiers {
		assert.Equal(t, backends[i].Tier.String(), tier.Tier)
		assert.Positive(t, tier.One)
		assert.Positive(t, tier.All)
		assert.Contains(t, o.stdout, "\n"+tier.Tier)
	}
	assert.Equal(t, []check{{checkOK, "data folder", os.Getenv("MQUINE_DATA"), ""}}, p.of("data folder"))
	assert.Equal(t, []check{{checkOK, "data sets", "0 installed", ""}}, p.of("data sets"))
	assert.Empty(t, must1(os.ReadDir(os.Getenv("MQUINE_DATA"))))
}

func TestDoctorFindsProblems(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	t.Setenv("MQUINE_DATA", data)
	p := diagnosed(t, mquine(t, "doctor", "--json", "-"))
	require.Len(t, p.of("data folder"), 1)
	assert.Equal(t, checkNote, p.of("data folder")[0].Status)
	assert.Contains(t, p.of("data folder")[0].Fix, "mquine data get umls")

	// Install a wrong public data set, an incomplete one and one that is not in the catalogue.
	for _, file := range []string{"umls/train.txt", "nations/valid.txt", "mine/test.txt"} {
		path := filepath.Join(data, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte("a\tr\tb\n"), 0o666))
	}
	t.Setenv(kernel.TierEnv, "sse9")
	o := mquine(t, "doctor", "--json", "-")
	p = diagnosed(t, o)
	o.requireSentence(t, exitFailed, "mquine doctor: found 3 problems")
	require.Len(t, p.of("kernels"), 1)
	assert.Equal(t, checkProblem, p.of("kernels")[0].Status)
	assert.Contains(t, p.of("kernels")[0].Finding, `MQUINE_TIER: unknown tier "sse9"`)
	sets := p.of("data sets")
	require.Len(t, sets, 3)
	assert.Contains(t, sets[0].Finding, "differs from the catalogue in")
	assert.Equal(t, check{checkOK, "data sets", "3 installed, 2 of them incomplete or different", ""}, sets[2])

	t.Setenv(kernel.TierEnv, "generic")
	t.Setenv("MQUINE_DATA", filepath.Join(data, "umls", "train.txt"))
	o = mquine(t, "info", "--json", "-") // the former name of doctor
	p = diagnosed(t, o)
	o.requireSentence(t, exitFailed, "found 1 problem")
	assert.Equal(t, checkNote, p.of("kernels")[0].Status)
	assert.Contains(t, p.of("kernels")[0].Finding, "MQUINE_TIER=generic")
	assert.Contains(t, p.of("data folder")[0].Finding, "is not a folder")
}

// A data set that cannot be read does not hide the others.
func TestDoctorUnreadableData(t *testing.T) {
	data := t.TempDir()
	t.Setenv("MQUINE_DATA", data)
	require.NoError(t, os.WriteFile(filepath.Join(data, "fb15k-237"), nil, 0o666)) // not a folder
	require.NoError(t, os.Mkdir(filepath.Join(data, "umls"), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(data, "umls", "train.txt"), []byte("a\tr\tb\n"), 0o666))
	sets := diagnosed(t, mquine(t, "doctor", "--json", "-")).of("data sets")
	require.Len(t, sets, 3)
	found := map[string]check{}
	for _, c := range sets {
		name, _, _ := strings.Cut(c.Finding, " ")
		found[name] = c
	}
	assert.Equal(t, checkProblem, found["fb15k-237"].Status)
	assert.Contains(t, found["fb15k-237"].Finding, "fb15k-237 cannot be read: ")
	assert.Equal(t,
		"Make "+filepath.Join(data, "fb15k-237")+` readable, or remove it and run "mquine data get fb15k-237".`,
		found["fb15k-237"].Fix)
	assert.Contains(t, found["umls"].Finding, "umls differs from the catalogue in train")
	assert.Equal(t, check{checkOK, "data sets", "1 installed, 1 of them incomplete or different", ""}, found["1"])
}

func TestDoctorOnMemory(t *testing.T) {
	for status, room := range map[string]proc.Room{
		checkProblem: {Bytes: 1 << 20, Limit: "memory limit of the control group"},
		checkNote:    {Bytes: 1 << 29, Limit: "free memory of the machine"},
		checkOK:      {Bytes: 1 << 33, Limit: "free memory of the machine"},
	} {
		var d diagnosis
		d.checkMemory(room)
		require.Len(t, d.Checks, 1)
		assert.Equal(t, status, d.Checks[0].Status)
		assert.Contains(t, d.Checks[0].Finding, room.Limit)
	}
	var d diagnosis
	d.checkMemory(proc.Unlimited)
	assert.Equal(t, checkOK, d.Checks[0].Status)
}

// With one thread, the table of rates has one column.
func TestDoctorOneThread(t *testing.T) {
	for threads, heads := range map[int]string{1: "1 thread", 2: "1 thread  2 threads"} {
		var d diagnosis
		d.Threads, d.Tiers = threads, []tierInfo{{Tier: "generic", FMAGFLOPS1: 1.5, FMAGFLOPSAll: 2.5}}
		var b bytes.Buffer
		d.print(&b)
		assert.Contains(t, b.String(), "FMA GFLOP/s  "+heads+"\n")
		assert.Equal(t, threads == 2, strings.Contains(b.String(), "2.5"))
	}
}

// Long findings and fixes wrap within their column.
func TestDoctorWraps(t *testing.T) {
	d := diagnosis{Version: "v1"}
	d.problem("data folder", strings.Repeat("long ", 30), "Do something. "+strings.Repeat("x", 100))
	var b bytes.Buffer
	d.print(&b)
	for line := range strings.Lines(b.String()) {
		assert.LessOrEqual(t, len(line), helpWidth+1)
	}
	assert.Contains(t, b.String(), "\n                      Do something.")
	assert.Contains(t, b.String(), "1 problem, 0 notes")
}
