package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mquine/mquine/internal/proc/proctest"
)

// Work that does not fit into memory is refused before it writes anything.
func TestTooLittleMemory(t *testing.T) {
	dir := t.TempDir()
	data, ckpt, run := filepath.Join(dir, "data"), filepath.Join(dir, "ckpt"), filepath.Join(dir, "run")
	space := spaceFile(t, "dim: {choice: [8, 128]}\nepochs: 3\n")
	args := func(line string) []string {
		args := strings.Fields(line)
		for i, arg := range args {
			switch arg {
			case "DATA":
				args[i] = data
			case "CKPT":
				args[i] = ckpt
			case "RUN":
				args[i] = run
			case "SPACE":
				args[i] = space
			case "NEW":
				args[i] = filepath.Join(dir, "new")
			}
		}
		return args
	}
	ok := func(line string) {
		t.Helper()
		succeed(t, args(line)...)
	}
	ok("data make zipf --out DATA --entities 20000 --train 20000 --test 2000")
	ok("init --model mquine --dim 20 --data DATA --out CKPT")
	ok("train --data DATA --dim 30 --negatives shared --negative-count 16 --valid-every 0 --epochs 1 --out RUN")
	unchanged := func() {
		t.Helper()
		requireFiles(t, dir, "data", "ckpt", "run")
		requireFiles(t, run, "config.yaml", "last", "log.jsonl", "loss.svg", "state.safetensors")
	}
	unchanged()

	proctest.Leave(t, 40<<20)
	ok("train --resume RUN") // a finished run needs no memory
	for _, c := range []struct{ line, want string }{
		{"init --model mquine --dim 64 --data DATA --out NEW", "creating mquine, d = 64, "},
		{"init --model mquine --dim 64 --data DATA --out NEW --kind clustered", "creating mquine, d = 64, "},
		{"init --model distmult --dim 256 --data DATA --out NEW --kind clustered", "ranking with distmult, d = 256, "},
		{"train --data DATA --dim 64 --out NEW", "training mquine, d = 64, on data "},
		{"train --data DATA --dim 1 --negatives independent --negative-count 16777216 --batch 1024 --out NEW",
			"negatives of a step 640 GiB"},
		{"train --resume RUN --epochs 2", "training mquine, d = 30, on data "},
		{"tune --data DATA --space SPACE --trials 2 --out NEW",
			"recipes that do not fit into memory: training mquine, d = 128, "},
		{"eval CKPT --data DATA --ranks NEW", "ranking with mquine, d = 20, "},
		{"eval CKPT --data DATA --sample 5000 --json NEW", "drawing up to 5,000 candidates for each query "},
		{"compare CKPT CKPT --data DATA --json NEW", "ranking with mquine, d = 20, "},
		{"predict CKPT --data DATA --head g082_e00000 --relation r00", "predicting with mquine, d = 20, "},
		{"data make zipf --out NEW --entities 1000000", "generating a graph like YAGO3-10 with 1,000,000 entities "},
		{"data make families --out NEW --entities 100000", "generating a families graph with 100,000 entities "},
	} {
		o := mquine(t, args(c.line)...)
		o.requireSentence(t, exitFailed, c.want)
		o.requireSentence(t, exitFailed, " needs about ")
		o.requireSentence(t, exitFailed, " but only 40 MiB is available (a limit of the test): ")
		require.Empty(t, o.stdout, c.line)
		unchanged()
	}

	// A little more memory is enough for small work, and for a ranking in smaller slices.
	proctest.Leave(t, 80<<20)
	ok("eval CKPT --data DATA --side tail --threads 2")
	ok("z stats --data DATA")
	ok("demo")
	proctest.Leave(t, 1<<30)
	ok("train --resume RUN")
}
