# Users need only build, demo and test. All other targets are for contributors.

GO ?= go
STATICCHECK = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: build help demo test race mutants fuzz check-long generate lint cross cross-all bench bench-quick \
	bench-compare rivals rivals-all bench-trained release check-release

build: ## build bin/mquine
	$(GO) build -o bin/mquine ./cmd/mquine

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## train and rank a toy graph
	bin/mquine demo

test: ## run all tests, on every tier of this machine
	$(GO) test -timeout 30m ./...

# The race detector makes code five to twenty times slower, so race runs only the tests of concurrent code, on small
# inputs. It checks unsafe pointers, too.
RACE = $(GO) test -race -short -timeout 20m
RACE_FILES = Cancel|Chang|Checksum|Finite|Inspect|Interrupt|OneAtATime
RACE_KERNEL = Parallel|PackRows|Cancelled
RACE_RANKS = ExactDecisions|Shard|Slices|Relational|DefaultOptions|Fallback|Stream|Threads|Cancel|Deterministic|Teams
RACE_ANSWERS = Predict$$|PredictMany|Relations$$|Discover$$|Draw$$|Negatives$$|Sample$$|Scores$$|Similar$$
RACE_TRAIN = SameB|Average|KvsAll|Search$$|Cancel|Drop
RACE_COMMANDS = Interrupt|HangUp|OneMakes|OneFile|Progress
race: ## run the tests of concurrent code under the race detector
	$(RACE) ./internal/fault ./internal/input ./internal/text ./kg ./kg/zpattern
	$(RACE) -run '$(RACE_FILES)' ./kg/catalogue ./model/checkpoint
	$(RACE) -run '$(RACE_KERNEL)' ./kernel ./kernel/linalg
	$(RACE) -run '$(RACE_RANKS)|$(RACE_ANSWERS)' ./rank/... ./metrics
	$(RACE) -run '$(RACE_TRAIN)' ./train/...
	$(RACE) -run '$(RACE_COMMANDS)' ./cmd/mquine

mutants: ## mutate the code, check that the tests notice, and write docs/mutants.md
	$(GO) run ./internal/mutants -doc docs/mutants.md

# Use a count: with a time, go test sometimes fails because it exceeds its own deadline.
FUZZTIME ?= 2000x
fuzz: ## run every fuzz target for FUZZTIME (a count such as 2000x, or a time)
	@grep -r --include='*_test.go' '^func Fuzz' . | sed -E 's|/[^/]*:func (Fuzz[[:alnum:]_]*).*| \1|' | sort | \
	while read -r p f; do \
	  echo "$$p $$f"; \
	  $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x "$$p" </dev/null || exit 1; \
	done

# Run this before a release, and after a change to how mquine handles files, locks, bounds or
# resuming.
check-long: ## run hundreds of kills, thousands of mutated inputs, long fuzzing and all mutants
	MQUINE_KILLS=500 MQUINE_MUTATIONS=400 $(GO) test -count=1 -timeout 120m -v \
	  -run 'Killed|Mutated|OneMakes|OneFile|Interrupt' ./cmd/mquine
	$(MAKE) cross-all
	$(MAKE) fuzz FUZZTIME=200000x
	$(MAKE) mutants

generate: ## regenerate the assembly
	$(GO) generate ./asm

lint: ## run gofmt, vet and staticcheck
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these files"; exit 1; }
	$(GO) vet ./...
	cd asm/gen && $(GO) vet ./...
	cd bench/rivals && $(GO) vet ./...
	$(STATICCHECK) ./...

cross: ## build for other systems and without assembly
	GOARCH=arm64 $(GO) vet ./...
	GOOS=windows $(GO) vet ./...
	GOOS=darwin GOARCH=arm64 $(GO) build ./...
	$(GO) build -tags noasm ./...

# SYSTEMS lists the systems of make release without linux/amd64, which the other targets cover, and adds two systems for
# which there are no releases: FreeBSD and Windows on ARM.
SYSTEMS = linux/arm64 darwin/arm64 darwin/amd64 freebsd/amd64 windows/amd64 windows/arm64
cross-all: ## build for all systems
	@for system in $(SYSTEMS); do \
	  echo "$$system"; \
	  CGO_ENABLED=0 GOOS=$${system%/*} GOARCH=$${system#*/} $(GO) build ./... || exit 1; \
	done

# docs/install.md describes the files. The same commit gives the same bytes.
release: ## write archives, wheels and checksums to dist
	rm -rf dist
	$(GO) run ./internal/release -out dist

check-release: ## check the files of make release, and go install, without a network
	scripts/check-release
	scripts/check-install

# docs/benchmarks.md explains the benchmarks.

bench: build ## run all benchmarks, ten results each, and keep them for the report; takes at least 3.5 hours
	bin/mquine bench run --count 10 --results bench/results

bench-quick: build ## run the quick subset of the benchmarks, in about a minute
	bin/mquine bench run --quick

BENCH ?= .
ROUNDS ?= 20
bench-compare: build ## compare the working tree with BASE=revision, interleaved: BENCH=regexp, ROUNDS=n, QUICK=1
	@test -n "$(BASE)" || { echo "give a revision to compare with: make bench-compare BASE=main"; exit 2; }
	bin/mquine bench pair --base '$(BASE)' --bench '$(BENCH)' --rounds $(ROUNDS) $(if $(QUICK),--quick)

# The rivals are a separate module. They use the Debian packages libopenblas0-pthread, libdnnl2 and
# python3-torch, if they are installed.
RIVALS ?= --data fb15k-237 --model mquine --dim 38
rivals: ## time mquine and its rivals on one job, with the flags RIVALS
	cd bench/rivals && $(GO) run . $(RIVALS)

rivals-all: ## time all jobs of the comparison, except those already timed for the same commit
	cd bench/rivals && $(GO) run . --all

# These rivals are the fastest, and have enough time to rank all queries. TRAINED adds flags, such as --data wn18rr, or
# --budget 3s to rank samples.
bench-trained: ## train small checkpoints once, and time whole evaluations of them in mquine and its best rivals
	cd bench/rivals && $(GO) run . --all --trained --rivals openblas,onednn,torch-unique --budget 10m $(TRAINED)
