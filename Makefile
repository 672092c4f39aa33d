# Targets that a user needs: demo and test. The rest is for those who change the code.

GO ?= go
STATICCHECK = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: build demo test race mutants fuzz check-long generate lint cross bench bench-quick bench-compare rivals rivals-all

build: ## the command, bin/mquine
	$(GO) build -o bin/mquine ./cmd/mquine

demo: build ## make a small graph and a checkpoint, rank its test split, print the table
	bin/mquine demo

test: ## all tests, on every tier of this machine
	$(GO) test -timeout 30m ./...

# The detector watches what runs concurrently. Left out are long tests of arithmetic alone, tests of processes
# rather than goroutines, measurements of memory (the detector needs memory of its own), and benchmarks.
RACE_SKIP = Large|^TestExact$$|Gradient|KilledAtSystemCalls|MutatedInputs|LimitsOfChild|PeakRSS
RACE_COMMANDS = Interrupt|HangUp|OneMakes|OneFile|Progress|Resume|Golden
race: ## the tests of concurrent code under the race detector
	$(GO) test -race -short -timeout 40m -skip '$(RACE_SKIP)' $$($(GO) list ./... | grep -v -e /asm -e /bench -e /cmd/ -e /internal/lint -e /internal/mutants)
	$(GO) test -race -short -timeout 40m -run '$(RACE_COMMANDS)' ./cmd/mquine

mutants: ## small wrong changes to the code, which the tests must notice; writes docs/mutants.md
	$(GO) run ./internal/mutants -doc docs/mutants.md

# A count: with a time, go test now and then fails on its own deadline.
FUZZTIME ?= 5000x
fuzz: ## every fuzz target for FUZZTIME (a count like 5000x, or a time)
	@$(GO) list ./... | while read -r p; do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	    echo "$$p $$f"; \
	    $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$p || exit 1; \
	  done; \
	done

# What takes too long for every change: before a release, and after a change to files, locks, bounds or resuming.
check-long: ## hundreds of kills, thousands of mutated inputs, minutes of every fuzz target, all mutants
	MQUINE_KILLS=500 MQUINE_MUTATIONS=400 $(GO) test -count=1 -timeout 120m -v -run 'Killed|Mutated|OneMakes|OneFile|Interrupt' ./cmd/mquine
	$(MAKE) fuzz FUZZTIME=200000x
	$(MAKE) mutants

generate: ## write the assembly anew
	rm -f asm/*_amd64.s asm/*_amd64.go
	$(GO) generate ./asm

lint: ## gofmt, vet and staticcheck
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these files"; exit 1; }
	$(GO) vet ./...
	cd asm/gen && $(GO) vet ./...
	$(STATICCHECK) ./...

cross: ## builds without this machine's assembly
	GOARCH=arm64 $(GO) vet ./...
	$(GO) vet -tags noasm ./...
	GOOS=darwin GOARCH=arm64 $(GO) build ./...

# Benchmarks: docs/benchmarks.md.

bench: build ## all benchmarks, ten results each, kept for the report; takes an hour or more
	bin/mquine bench run --count 10 --results bench/results

bench-quick: build ## the quick subset, in less than a minute
	bin/mquine bench run --quick

BENCH ?= .
ROUNDS ?= 20
bench-compare: build ## the working tree against BASE=revision, in turn: BENCH=regexp, ROUNDS=n
	@test -n "$(BASE)" || { echo "name the revision to compare with: make bench-compare BASE=main"; exit 2; }
	bin/mquine bench pair --base '$(BASE)' --bench '$(BENCH)' --rounds $(ROUNDS)
# The rivals are a module of their own. They use what is installed of Debian's libopenblas0-pthread,
# libdnnl2 and python3-torch.
RIVALS ?= --data fb15k-237 --model mquine --dim 38
rivals: ## time mquine beside its rivals on one job; RIVALS has the flags
	cd bench/rivals && $(GO) run . $(RIVALS)

rivals-all: ## all jobs of the comparison; finished ones are kept for the same commit
	cd bench/rivals && $(GO) run . --all
