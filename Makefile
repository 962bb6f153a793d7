# Bare `make` lists the targets. `make run` and `make test` need Go, a C compiler
# and make; everything else is fetched by the package clients on first use.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VERSION := $(shell sed -n 's/^const Version = "\(.*\)"/\1/p' udf/registry.go)
BUILD   := build
GO      ?= go
TAGS    := bglm_extension
SO_FLAGS = -tags $(TAGS) -buildmode=c-shared -trimpath
UNAME   := $(shell uname -s)
# What is given away runs from glibc 2.28 on: see udf/internal/capi/glibc_linux_amd64.c.
ifeq ($(UNAME) $(shell $(GO) env GOARCH),Linux amd64)
TAGS := $(TAGS),bglm_release
OLD   = $(shell sed -nE 's/^OLD(ER)?\((\w+).*\)$$/-Wl,--wrap=\2/p' $(1)) -Wl,--push-state,--no-as-needed -l:libpthread.so.0 -Wl,--pop-state
WRAP := $(call OLD,udf/internal/capi/glibc_linux_amd64.c)
TOOLWRAP := $(call OLD,$(wildcard udf/internal/capi/glibc_*linux_amd64.c)) -l:libdl.so.2 -Wl,--wrap=__libc_start_main
endif
ifeq ($(UNAME),Linux)
LINK := -static-libgcc -Wl,-z,relro,-z,now -Wl,--version-script=$(CURDIR)/udf/internal/capi/exports.map
endif

.PHONY: help build extension release run data test test-nocgo test-arrow test-beam test-race test-clients test-install notebooks soak sanitize fuzz bench bench-peers latency lint generate golden docs reproduce newcomer clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the command line tool build/bglm
	$(GO) build -trimpath -o $(BUILD)/bglm ./cmd/bglm

extension: ## build the loadable extension build/bglm.duckdb_extension
	@mkdir -p $(BUILD)
	$(GO) build $(SO_FLAGS) -ldflags "-s -w -extldflags '$(LINK) $(WRAP)'" -o $(BUILD)/libbglm.so ./cmd/extension
	$(GO) run ./cmd/packext $(BUILD)/libbglm.so $(BUILD)/bglm.duckdb_extension $(VERSION)
	@rm -f $(BUILD)/libbglm.so $(BUILD)/libbglm.h

# With -no-pie said outright: Go asks the linker whether it knows it with flags of ours that
# an empty program cannot be linked with.
RELEASE := $(BUILD)/release
# Commit, date and whether files differ from it, which Go does not find in a linked worktree.
BUILT = $(shell TZ=UTC git log -1 --format=%H,%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ 2>/dev/null)$(if $(shell git status --porcelain 2>/dev/null),$(comma)changed)
comma := ,
release: extension ## all that is given away, into build/release (KEY=private.pem signs a repository for DuckDB 2)
	@rm -rf $(RELEASE) && mkdir -p $(RELEASE) $(BUILD)/static
	@ln -sf "$$(gcc -print-file-name=libstdc++.a)" $(BUILD)/static/libstdc++.a
	$(GO) build -trimpath -buildvcs=auto -tags bglm_release,netgo,osusergo -ldflags "-s -w -X main.built=$(BUILT) -extldflags '-no-pie -static-libgcc -L$(CURDIR)/$(BUILD)/static -Wl,-z,relro,-z,now -Wl,--no-export-dynamic -Wl,--gc-sections $(TOOLWRAP)'" -o $(RELEASE)/bglm ./cmd/bglm
	@cp $(BUILD)/bglm.duckdb_extension $(RELEASE)/
	$(GO) run ./cmd/release -version $(VERSION) -out $(RELEASE) $(if $(KEY),-key $(KEY))

run: build ## the main job: learn late flights from testdata/flights.parquet
	$(BUILD)/bglm demo

data: ## get all 3,000,000 flights through npm into data/flights-3m.parquet
	bash testdata/gen/fetch-data.sh

test: ## all Go tests
	$(GO) test -timeout 30m ./...

# Short and in part: the kernels are the same code, of which `make test` runs all tests.
test-nocgo: ## the numerics without a C compiler, the slow tests short
	CGO_ENABLED=0 $(GO) vet ./kernels/... ./arrowio/... ./sql/...
	CGO_ENABLED=0 $(GO) test -short ./kernels ./kernels/engine ./kernels/memory ./kernels/score ./kernels/dense ./arrowio/... ./sql/...

test-arrow: ## Arrow to and from the Go driver, over the C data interface
	$(GO) vet -tags duckdb_arrow ./arrowio/duckdb
	$(GO) test -tags duckdb_arrow ./arrowio/duckdb

# A module of its own, for Beam's is large: a cold build takes minutes.
test-beam: build ## fits on Apache Beam's runner Prism, in this process
	cd arrowio/beam && $(GO) mod tidy -diff && CGO_ENABLED=0 $(GO) vet ./... && BGLM=$(CURDIR)/$(BUILD)/bglm CGO_ENABLED=0 $(GO) test ./...

# Not of docs, whose programs compare numbers of engines that are under it themselves, nor of
# the rules for texts, nor of packages that start no goroutine and call none that does.
test-race: ## tests under the race detector, the slow ones short
	$(GO) test -race -short -timeout 25m $$($(GO) list ./... | grep -vE '/docs/|/internal/rules$$|kernels/(lik|special|option|metric|fitlayout|argument|kerneltest)(/|$$)|cmd/(release|packext)$$')

test-clients: extension ## SQL tests in each DuckDB of clientVersions (Node clients, through npm)
	BGLM_EXTENSION=$(CURDIR)/$(BUILD)/bglm.duckdb_extension $(GO) test ./udf/sqltest -run 'TestClients|TestEqualClients|TestHostileClients|TestNumbersClients|TestFitAcrossVersions|TestSettingsClients|TestSlotsClients|TestHosts|TestAmongClients|TestHardened|TestGlibcFloor|TestSignals|TestNodeExample|TestOtherGo|TestColdClients|TestOutOfCoreClients' -count=1 -v -timeout 60m

test-install: ## the tool as go install builds it from a tag (a minute)
	$(GO) test ./cmd/release -run TestGoInstall -count=1 -timeout 30m -install

notebooks: ## run the notebooks headless and compare with what is stored (Debian packages, gonb)
	bash notebooks/run.sh

SOAK ?= 20000
SOAKSEED ?= $(shell date +%s)
CRAFTED ?= 1000000
soak: extension ## random statements by the thousand, in this process and in each client (SOAK=20000, SOAKSEED), and a million crafted FITs (CRAFTED)
	$(GO) test ./udf -run 'TestCraftedFits' -count=1 -v -timeout 24h -crafted $(CRAFTED) -crafted-sql $(SOAK) -crafted-seed $(SOAKSEED)
	$(GO) test ./arrowio -run 'TestCraftedTables' -count=1 -v -timeout 24h -crafted $(CRAFTED)
	BGLM_EXTENSION=$(CURDIR)/$(BUILD)/bglm.duckdb_extension $(GO) test ./udf/sqltest -run 'TestHostile$$|TestHostileClients' -count=1 -v -timeout 24h -hostile $(SOAK) -hostile-seed $(SOAKSEED)

# DuckDB's own library is not instrumented, so that container checks and the leak
# finder would report what is not there.
sanitize: export ASAN_OPTIONS = detect_leaks=0:detect_container_overflow=0
sanitize: export CGO_CFLAGS = -O1 -g -fsanitize=undefined -fno-sanitize-recover=undefined
sanitize: export CGO_LDFLAGS = -fsanitize=undefined
sanitize: ## SQL tests with the C parts, and Go's use of C memory, under address and undefined-behaviour checks
	$(GO) test -asan ./udf/internal/capi
	$(GO) test -asan -short ./udf/sqltest -run 'Hostile$$|Stress|Examples' -stress 3s

FUZZTIME ?= 60s
# Go's fuzzer can report its own end as a failure without an input: such a target runs again.
fuzz: ## each fuzz target for a minute (FUZZTIME=60s)
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	for p in $$($(GO) list ./...); do for f in $$($(GO) test -list '^Fuzz' $$p | grep ^Fuzz); do \
	  once() { echo "$$p $$f"; $(GO) test $$p -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x >"$$log" 2>&1; code=$$?; cat "$$log"; return $$code; }; \
	  once || { grep -q 'context deadline exceeded' "$$log" && ! grep -q 'Failing input' "$$log" && once; } || exit 1; done; done

bench: extension ## speed through SQL against the kernel and a scan, then the kernels' own benchmarks
	$(GO) run ./udf/bench
	$(GO) test -run '^$$' -bench . -benchmem ./kernels/...

bench-peers: ## scikit-learn beside bglm through SQL in one run, into docs/benchmarks.md (python3-sklearn and OpenBLAS, through apt-get)
	bash udf/bench/peers/need.sh
	$(GO) run ./udf/bench/peers -write docs/benchmarks.md

latency: ## how long each engine goes on after it is cancelled, as a table (minutes)
	go test ./kernels/engine -run TestLatencyTable -count=1 -timeout 1h -latency $(abspath build)/latency.md && cat build/latency.md

lint: ## gofmt, go vet, staticcheck, tidy requirements, imports, comments and spelling (wbritish, through apt-get)
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "not gofmt-ed: $$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags bglm_extension ./cmd/extension ./udf/internal/capi
	for os in windows darwin; do GOOS=$$os CGO_ENABLED=0 $(GO) vet ./kernels/... ./arrowio/... || exit 1; done
	$(GO) mod tidy -diff
	$(GO) test ./cmd/internal/rules
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./kernels/... ./udf/... ./cmd/... ./arrowio/... ./sql/... ./docs/...

generate: docs ## make generated code and pages again (python3 with mpmath)
	$(GO) generate ./kernels/...
	python3 testdata/gen/mills.py

golden: ## make the high-precision reference tables again (python3 with mpmath)
	python3 testdata/gen/moments.py

docs: ## make the generated pages again
	$(GO) test ./udf/sqltest -run 'TestErrorsDoc' -update
	$(GO) test ./kernels/lik -run 'TestAccuracyTable' -update
	$(GO) test ./udf -run 'TestFunctionsDoc' -update

reproduce: ## every claim of the papers, into docs/reproduce.md (minutes)
	$(GO) run ./docs/reproduce -write docs/reproduce.md

newcomer: build ## plain first attempts against the truth and scikit-learn, into docs/comparison.md (minutes; python3-sklearn through apt-get)
	bash udf/bench/peers/need.sh
	$(GO) run ./docs/newcomer -bglm $(BUILD)/bglm -write docs/comparison.md

clean: ## remove what was built
	rm -rf $(BUILD)
