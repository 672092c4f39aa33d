# Targets that a user needs: demo and test. The rest is for those who change the code.

GO ?= go
STATICCHECK = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: build demo test race fuzz generate lint cross

build: ## the command, bin/mquine
	$(GO) build -o bin/mquine ./cmd/mquine

demo: build ## make a small graph and a checkpoint, rank its test split, print the table
	bin/mquine demo

test: ## all tests, on every tier of this machine
	$(GO) test ./...

race: ## the tests under the race detector, but for the largest
	$(GO) test -race -short -skip Large ./...

# A count: with a time, go test now and then fails on its own deadline.
FUZZTIME ?= 5000x
fuzz: ## every fuzz target for FUZZTIME (a count like 5000x, or a time)
	@$(GO) list ./... | while read -r p; do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	    echo "$$p $$f"; \
	    $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$p || exit 1; \
	  done; \
	done

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
