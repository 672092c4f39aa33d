//go:build linux && (amd64 || arm64) && !nocuda

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/kernel/cuda/standin"
	"github.com/mquine/mquine/kg"
	"github.com/mquine/mquine/metrics"
)

// process runs the command in a separate process, which opens the driver again.
func process(t *testing.T, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := command(t, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// TestGPUs runs the command on the stand-in driver. One GPU and two GPUs give the same ranks as the
// processor. The command reports missing, faulty and unsupported GPUs, and flags that contradict
// each other.
func TestGPUs(t *testing.T) {
	library := standin.Library(t)
	w := newWorkplace(t)
	eval := []string{"eval", "-v", w.model, "--data", w.data, "--ranks", w.path("ranks.tsv")}
	with := func(more ...string) []string { return append(eval[:len(eval):len(eval)], more...) }
	ranks := func() string {
		text, err := os.ReadFile(w.path("ranks.tsv"))
		require.NoError(t, err)
		require.NoError(t, os.Remove(w.path("ranks.tsv")))
		return string(text)
	}
	t.Setenv("MQUINE_LIBCUDA", "/nowhere/libcuda.so.1")
	process(t, with("--backend", "cuda")...).requireSentence(t, exitFailed,
		"cuda: no NVIDIA driver: /nowhere/libcuda.so.1")
	o := process(t, with("--devices", "0")...)
	assert.Contains(t, o.stderr, "note: using the processor: cuda: no NVIDIA driver")
	assert.NotContains(t, o.stderr, "--backend auto", "what the note says already happens")
	want := ranks()
	o = process(t, "eval", "-q", w.model, "--data", w.data, "--devices", "0")
	assert.Regexp(t, `^note: using the processor: cuda: no NVIDIA driver[^\n]*\n$`, o.stderr)

	t.Setenv("MQUINE_LIBCUDA", library)
	t.Setenv("STANDIN_DEVICES", "2")
	assert.NotContains(t, process(t, with()...).stderr, "GPU", "GPUs must be asked for")
	assert.Equal(t, want, ranks())
	assert.Contains(t, process(t, with("--devices", "0")...).stderr, "on GPU 0 (Stand-in) with")
	assert.Equal(t, want, ranks())
	assert.Contains(t, process(t, with("--backend", "cuda", "--devices", "1,0")...).stderr,
		"on GPU 1 (Stand-in) and GPU 0 (Stand-in) with")
	assert.Equal(t, want, ranks())
	process(t, with("--backend", "cuda", "--devices", "0,2")...).requireSentence(t, exitFailed,
		"cuda: there is no GPU 2: the driver finds 2, numbered from 0")
	process(t, with("--backend", "avx2", "--devices", "0")...).requireSentence(t, exitUsage,
		"--devices needs --backend auto or cuda: --backend avx2 uses the processor")
	process(t, with("--devices", "0,0")...).requireSentence(t, exitUsage, "0 is given twice")
	process(t, with("--devices", "0", "--peak")...).requireSentence(t, exitFailed,
		"--peak measures the processor: leave it out, or do not use GPUs")
	process(t, with("--backend", "cuda", "--screen", "int8")...).requireSentence(t, exitFailed,
		"--screen int8 applies to the processor: leave it out, or do not use GPUs")
	hake := w.path("hake")
	succeed(t, "init", "--model", "hake", "--dim", "4", "--data", w.data, "--out", hake)
	process(t, "eval", hake, "--data", w.data, "--backend", "cuda").requireSentence(t, exitFailed,
		"model hake cannot be ranked on GPUs, which lack the comparison hake: only the processor ranks it; "+
			"to rank on the processor, use --backend auto")

	var info struct{ GPUs []gpuInfo }
	require.NoError(t, json.Unmarshal([]byte(process(t, "info", "--json", "-").stdout), &info))
	require.Len(t, info.GPUs, 2)
	assert.Equal(t, gpuInfo{Index: 1, Name: "Stand-in", Capability: "8.6", Memory: 4 << 30, Driver: "12.4"},
		info.GPUs[1])

	predict := []string{"predict", w.model, "--data", w.data, "--head", "", "--relation", "lives_in"}
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	predict[5] = g.Entities.Label(0)
	predicted := succeed(t, append(predict, "--backend", "generic")...).stdout
	o = process(t, append(predict, "-v", "--backend", "cuda", "--devices", "0,1")...)
	assert.Equal(t, predicted, o.stdout)
	assert.Contains(t, o.stderr, "on GPU 0 (Stand-in) and GPU 1 (Stand-in)")
	process(t, append(predict, "--backend", "avx2", "--devices", "0")...).requireSentence(t, exitUsage,
		"--devices needs --backend auto or cuda: --backend avx2 uses the processor")
	relations := []string{"predict", w.model, "--data", w.data, "--head", predict[5], "--tail", predict[5]}
	process(t, append(relations, "--backend", "cuda")...).requireSentence(t, exitFailed,
		"--backend cuda does not apply to queries for relations, which the processor answers: leave it out")
	process(t, append(relations, "--devices", "0")...).requireSentence(t, exitFailed,
		"--devices does not apply to queries for relations, which the processor answers: leave it out")

	// The self-test rejects tensor cores that round worse than the bands assume.
	t.Setenv("STANDIN_CARELESS", "13")
	process(t, with("--backend", "cuda")...).requireSentence(t, exitFailed,
		"GPU 0 (Stand-in) failed the self-test: its results for model mquine on a small graph differ from the "+
			"processor's; to rank on the processor, use --backend auto")
	assert.NoFileExists(t, w.path("ranks.tsv"))
	assert.Contains(t, process(t, with("--devices", "0")...).stderr,
		"note: using the processor: GPU 0 (Stand-in) failed the self-test")
	assert.Equal(t, want, ranks())
	o = process(t, append(predict, "--devices", "0")...)
	assert.Equal(t, predicted, o.stdout)
	assert.Contains(t, o.stderr, "note: using the processor: GPU 0")
	t.Setenv("STANDIN_CARELESS", "0")

	t.Setenv("STANDIN_LOSE", "3")
	process(t, append(predict, "--backend", "cuda")...).requireSentence(t, exitFailed,
		"this process can no longer use the GPU and discards its unfinished work; "+
			"to rank on the processor, use --backend auto")
	o = process(t, append(predict, "--devices", "0")...)
	assert.Equal(t, predicted, o.stdout)
	assert.Contains(t, o.stderr, "note: using the processor: cuda: GPU 0 (Stand-in)")
	assert.NotContains(t, o.stderr, "--backend auto")
	process(t, with("--backend", "cuda")...).requireSentence(t, exitFailed, "this process can no longer use the GPU")
	assert.NoFileExists(t, w.path("ranks.tsv"))
	assert.Contains(t, process(t, with("--devices", "0")...).stderr,
		"note: using the processor: cuda: GPU 0 (Stand-in)")
	assert.Equal(t, want, ranks())
	t.Setenv("STANDIN_LOSE", "0")
	t.Setenv("STANDIN_CAPABILITY", "75")
	process(t, with("--backend", "cuda")...).requireSentence(t, exitFailed,
		"is too old: it has compute capability 7.5 and mquine needs 8.0")
}

// TestLostGPU checks that a result names the processor, and not the GPU, after the GPU fails between the
// self-test and the end of the computation.
func TestLostGPU(t *testing.T) {
	t.Setenv("MQUINE_LIBCUDA", standin.Library(t))
	w := newWorkplace(t)
	g, err := kg.Open(t.Context(), w.data)
	require.NoError(t, err)
	computed := func(args ...string) (stderr, cpu, tier string) {
		o := process(t, append(args, w.model, "--data", w.data, "-v", "--devices", "0", "--json", w.path("r.json"))...)
		require.Zero(t, o.status, o.stderr)
		var result struct{ Provenance metrics.Provenance }
		require.NoError(t, json.Unmarshal(must1(os.ReadFile(w.path("r.json"))), &result))
		return o.stderr, result.Provenance.Machine.CPU, result.Provenance.Machine.Tier
	}
	predict := []string{"predict", "--head", g.Entities.Label(0), "--relation", "lives_in"}
	_, cpu, tier := computed(predict...)
	assert.Contains(t, cpu, ", GPU 0 (Stand-in)")
	assert.Equal(t, cudaBackend, tier)
	t.Setenv("STANDIN_LOSE", "24")
	const note = "note: using the processor: cuda: GPU 0 (Stand-in)"
	for _, args := range [][]string{predict, {"discover", "-k", "3"}} {
		stderr, cpu, tier := computed(args...)
		require.Contains(t, stderr, note, args[0])
		if args[0] == "predict" {
			require.Contains(t, stderr, "on GPU 0 (Stand-in)\n"+note, "the self-test has passed")
		}
		assert.NotContains(t, cpu, "GPU", args[0])
		assert.NotEqual(t, cudaBackend, tier, args[0])
	}
}
