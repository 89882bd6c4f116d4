# Freshet. `make help` lists what there is.

SHELL    := bash
GO       ?= go
BIN      := bin
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  := -X main.version=$(VERSION)
LINT     := $(GO) tool -modfile=$(CURDIR)/tools/lint/go.mod golangci-lint
IMAGE    ?= freshet:$(VERSION)
FUZZTIME ?= 20s
MINUTES  ?= 10
PKGS     ?= ./...
# Without paths in what is built, all checkouts share one compile cache.
export GOFLAGS := $(strip -trimpath $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)))
# UNIT      Packages outside test/, and test/removal. They need only Go.
# PLAIN     The part of UNIT without the race detector: benchmarks, too slow with it, and long tests on one goroutine, which make nightly runs with it.
#           Of ./metadata, the race detector also sees the one test with several goroutines.
# WAITING   Packages with real processes that mostly wait. They run beside UNIT, which has the lower priority (nice).
# MEASURING The other packages with real processes. They measure times, so they run alone, after test/sim.
# The longest packages come first in each list.
UNIT      = $(shell { $(GO) list ./... || echo ./go-list-failed; } | grep -v '/test/') ./test/removal
PLAIN     = $(shell $(GO) list ./bench/... ./cmd/... ./deploy/... ./internal/docs ./internal/lint ./metadata ./controlplane/job ./controlplane/registry/...) ./test/removal
WAITING   = ./test/clients ./test/matrix ./test/ecosystem ./test/differential ./test/e2e ./test/zones ./test/chart ./test/elastic ./test/upgrade ./test/tenants ./test/ecs ./test/attacks ./test/soak
MEASURING = $(shell $(GO) list ./test/... | grep -v -e '/test/sim' -e '/test/removal' -e '/test/kube' -e '/test/ecs/cluster' -e '/test/compose' -e '/test/boundary' $(WAITING:./%=-e '/%$$'))
# Vet is make lint's.
TEST      = $(GO) test -vet=off -timeout 14m
REAL      = FRESHET_BINARY=$(abspath $(BIN)/freshet) $(TEST) -count=1
# make runs a recipe that names $(MAKE) even under -n; a recipe that only names SUB is printed.
SUB      := $(MAKE) --no-print-directory

.DEFAULT_GOAL := help
.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/freshet
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/freshet ./cmd/freshet

.PHONY: build-bench
build-bench: build ## build bin/freshet-bench, and bin/freshet, which it measures
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/freshet-bench ./cmd/freshet-bench

# The programs of images and releases: the same bytes from the same source, wherever the checkout is.
STATIC  = $(BIN)/linux-amd64/freshet $(BIN)/linux-arm64/freshet
SYSTEMS = linux-amd64 linux-arm64 darwin-amd64 darwin-arm64
PROGRAMS = $(SYSTEMS:%=$(BIN)/%/freshet) $(SYSTEMS:%=$(BIN)/%/freshet-bench)
.PHONY: $(PROGRAMS)
$(PROGRAMS): $(BIN)/%:
	CGO_ENABLED=0 GOOS=$(word 1,$(subst -, ,$(*D))) GOARCH=$(word 2,$(subst -, ,$(*D))) \
	  $(GO) build -buildvcs=false -ldflags '-s -w $(LDFLAGS)' -o $@ ./cmd/$(*F)

PACK    = $(GO) -C tools/image run . --platform
MACHINE = $(shell $(GO) env GOARCH)
.PHONY: image
image: $(STATIC) ## write bin/freshet-image.tar, an OCI archive of IMAGE (freshet:VERSION); PUSH=registry/name:tag pushes it too
	@$(GO) -C tools/image run . --name '$(IMAGE)' --output '$(abspath $(BIN))/freshet-image.tar' --directory /data $(if $(PUSH),--push '$(PUSH)') \
	  --platform 'amd64=$(abspath $(BIN))/linux-amd64/freshet' --platform 'arm64=$(abspath $(BIN))/linux-arm64/freshet'

.PHONY: release
release: build-bench $(PROGRAMS) ## write archives for Linux and macOS, and SHA256SUMS, into bin/release (needs GNU tar)
	@deploy/release '$(BIN)' '$(VERSION)' $(SYSTEMS)

.PHONY: try-release
try-release: release ## unpack the archive of this machine's system, and run it in an empty root directory (Linux; root or user namespaces)
	@deploy/try-release '$(BIN)/release' 'freshet-$(VERSION)-linux-$(MACHINE)'

.PHONY: contrib
contrib: $(BIN)/linux-$(MACHINE)/freshet ## load an image into Docker or Podman, and run the tests of contrib/ with it (needs Java, Maven; 40 s)
	@$(PACK) '$(MACHINE)=$(abspath $(BIN))/linux-$(MACHINE)/freshet' --directory /data --name freshet:contrib --output '$(abspath $(BIN))/contrib-image.tar'
	@contrib/test.sh freshet:contrib '$(BIN)/contrib-image.tar'

.PHONY: cluster
cluster: build ## run etcd, an S3 server, two control planes and three agents in two zones on this machine (docs/tutorial.md)
	mkdir -p $(BIN)/servers
	CGO_ENABLED=0 $(GO) -C tools/servers build -ldflags '-s -w' -o $(abspath $(BIN))/servers/ github.com/versity/versitygw/cmd/versitygw
	CGO_ENABLED=0 $(GO) -C tools/servers build -ldflags '-s -w' -o $(abspath $(BIN))/servers/etcd go.etcd.io/etcd/server/v3
	deploy/local/cluster.sh

.PHONY: dev
dev: build ## build and run everything in one process, data in ./data
	$(BIN)/freshet dev

.PHONY: test
test: build ## run all tests, whichever fail: units and a simulated cluster with the race detector, and real clients
	@failed=; \
	$(SUB) -k -j2 test-unit test-waiting || failed=yes; \
	$(SUB) test-sim || failed=yes; \
	$(SUB) test-measuring || failed=yes; \
	test -z "$$failed"

.PHONY: test-unit test-waiting test-sim test-measuring
test-unit:
	@failed=; \
	nice $(TEST) -race -p 3 $(filter-out $(PLAIN),$(UNIT)) || failed=yes; \
	nice $(TEST) -race -run '^TestSnapshot_ReadWhileApplying$$' ./metadata || failed=yes; \
	nice $(TEST) -p 3 $(PLAIN) || failed=yes; \
	nice $(GO) -C tools/image test -vet=off -race ./... || failed=yes; \
	test -z "$$failed"

test-waiting:
	$(REAL) -p 2 -parallel 3 $(WAITING)

test-sim:
	@$(TEST) -race -count=1 -parallel 12 ./test/sim

test-measuring:
	$(REAL) -p 1 -parallel 10 $(MEASURING)

# TestDev_SurvivesRestartAndKill is the smoke test: freshet dev, produce, consume, kill -9, again.
.PHONY: check
check: ## what a commit needs, in 3 minutes: vet, lint, unit tests without etcd, S3 server or race detector, a smoke test
	@began=$$(date +%s); failed=; \
	$(SUB) lint || failed="$$failed lint"; \
	$(GO) test -vet=off -short $(UNIT) || failed="$$failed units"; \
	$(GO) -C tools/image test -vet=off ./... || failed="$$failed image"; \
	$(GO) test -vet=off -count=1 -run '^TestDev_SurvivesRestartAndKill$$' ./test/timing || failed="$$failed smoke"; \
	echo "make check: $$(( $$(date +%s) - began )) s$${failed:+, FAILED:$$failed}"; \
	test -z "$$failed"

# FRESHET_NIGHTLY=1 runs the tests that skip with "only in make nightly". The failed steps are listed at the end.
.PHONY: nightly
nightly: build ## run what make test leaves out: slow, random and timed tests, fuzzing, other systems (about two hours)
	@failed=; run() { echo "== $$*"; "$$@" || failed="$$failed; $$*"; }; \
	export FRESHET_NIGHTLY=1 CI=true FRESHET_BINARY=$(abspath $(BIN)/freshet); \
	run $(TEST) -count=1 -timeout 40m $(UNIT); \
	run $(TEST) -race -count=1 -timeout 40m ./metadata ./controlplane/job ./controlplane/registry/... ./test/removal; \
	run $(TEST) -count=1 -timeout 60m -p 1 $(WAITING); \
	run $(TEST) -count=1 -timeout 40m -p 1 ./test/faults ./test/timing -args -bounds; \
	run $(TEST) -race -count=1 -timeout 40m -parallel 6 ./test/sim; \
	run $(SUB) sim; \
	run $(SUB) elastic DURATION=1m; \
	run $(SUB) upgrade; \
	run $(SUB) -k soak-memory soak-stall soak-verify; \
	run $(SUB) -k clients differential removal sim-jobs snapshot-states producers; \
	run $(SUB) fuzz; \
	for system in linux/arm64 darwin/amd64 darwin/arm64; do \
	  run env GOOS=$${system%/*} GOARCH=$${system#*/} $(GO) build -o /dev/null ./cmd/...; \
	done; \
	if [ -n "$$failed" ]; then echo "make nightly: FAILED: $${failed#; }"; false; fi

.PHONY: unit
unit: ## run all unit tests without the race detector
	@$(GO) test $(UNIT)

.PHONY: race
race: ## run the unit tests with the race detector
	@$(GO) test -race -timeout 10m $(UNIT)

.PHONY: sim
sim: ## break a cluster in one process in the order of SEED (default: from the clock) for DURATION (5m)
	FRESHET_SIM_SEED=$(or $(SEED),$(shell date +%s)) FRESHET_SIM_DURATION=$(or $(DURATION),5m) $(GO) test -race -timeout 0 -count=1 -v -run '^Test(Transactions_|Fire_)?Seed$$' ./test/sim

.PHONY: sim-jobs
sim-jobs: ## break a cluster whose background jobs run all the time, with each of the seeds 1 to SEEDS (20) for DURATION (15s)
	FRESHET_SIM_SEEDS=$(or $(SEEDS),20) FRESHET_SIM_DURATION=$(or $(DURATION),15s) $(GO) test -race -timeout 0 -count=1 -v -run '^TestFire_Seed$$' ./test/sim

.PHONY: snapshot-states
snapshot-states: ## encode and decode STATES (10000) random states of the metadata with every field at its limits
	FRESHET_SNAPSHOT_STATES=$(or $(STATES),10000) $(GO) test -timeout 0 -count=1 -v -run '^TestSnapshot_OfRandomStates$$' ./metadata

.PHONY: removal
removal: ## look for records that go though they must stay, over SEEDS (200) from SEED (1) on
	FRESHET_REMOVAL_SEED=$(or $(SEED),1) FRESHET_REMOVAL_SEEDS=$(or $(SEEDS),200) $(GO) test -timeout 0 -count=1 -v ./test/removal

.PHONY: producers
producers: ## let PRODUCERS (10,000,000) short-lived producers write to one partition in 30 simulated days
	FRESHET_PRODUCERS=$(or $(PRODUCERS),10000000) $(GO) test -timeout 0 -count=1 -v -run '^TestProducers_History$$' ./metadata

.PHONY: soak-memory
soak-memory: ## write 300-byte records with the least memory and full caches for DURATION (10m)
	FRESHET_SIM_SOAK=$(or $(DURATION),10m) $(GO) test -timeout 0 -count=1 -v -run '^TestMemory_SmallRecordsFullCache$$' ./test/sim

.PHONY: soak-stall
soak-stall: ## let the object store stand still for DURATION (60s) under load
	FRESHET_SIM_STALL=$(or $(DURATION),60s) $(GO) test -race -timeout 0 -count=1 -v -run '^TestStall_BucketStandsStill$$' ./test/sim

.PHONY: e2e
e2e: build ## run all packages under test/ one after the other, verbosely; RUN=<regexp> selects tests
	FRESHET_BINARY=$(abspath $(BIN)/freshet) $(GO) test -timeout 30m -count=1 -p 1 -v $(if $(RUN),-run '$(RUN)') ./test/...

OUTAGE ?= 10s
COUNT  ?= 1
.PHONY: faults
faults: build ## kill, pause and cut off parts of a real cluster under load, within bounds; COUNT=5 OUTAGE=20s for longer
	FRESHET_BINARY=$(abspath $(BIN)/freshet) $(GO) test -timeout 60m -count=$(COUNT) -v ./test/faults -args -bounds -outage $(OUTAGE)

.PHONY: clients
clients: build ## run the client libraries of docs/clients.md against Freshet and Apache Kafka, and print what each can do
	FRESHET_MATRIX_KAFKA=1 $(REAL) -v -parallel 3 -run '^Test(Matrix|OldProtocol|Table)' ./test/matrix

.PHONY: clients-table
clients-table: ## write the table of client libraries into docs/clients.md
	$(TEST) -count=1 -run '^TestTable' ./test/matrix -golden

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (20s)
	@failed=; packages=$$($(GO) list -f '{{.Dir}} {{.ImportPath}}' $(PKGS)) || exit 1; while read -r dir pkg; do \
	  for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$dir/*_test.go 2>/dev/null | cut -c6-); do \
	    echo "== $$pkg $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg || failed="$$failed $$pkg:$$target"; \
	  done; \
	done <<< "$$packages"; \
	if [ -n "$$failed" ]; then echo "make fuzz: FAILED:$$failed"; false; fi

.PHONY: bench
bench: ## run the Go benchmarks
	$(GO) test -run '^$$' -bench . -benchmem $(PKGS)

.PHONY: bench-batches
bench-batches: build-bench ## measure what batches of one record cost: 64 producers over 288 partitions
	$(BIN)/freshet-bench batches $(ARGS)

.PHONY: bench-catchup
bench-catchup: build-bench ## measure the live edge while three groups read a backlog; ARGS="--backlog 512MiB --pairs 1" for less
	$(BIN)/freshet-bench catchup $(ARGS)

.PHONY: bench-cost
bench-cost: build-bench ## measure CPU seconds per GiB against the floor; ARGS="--rounds 3 --shapes A" selects
	$(BIN)/freshet-bench cost $(ARGS)

.PHONY: bench-curve
bench-curve: ## print how metadata grow in 6 hours at 24 bundles a second, and in 7 days at one (driven clock, no bytes)
	FRESHET_CURVE=1 GOGC=400 $(GO) test -timeout 0 -count=1 -v -run "$(or $(RUN),.)" ./bench/curve

.PHONY: bench-compare
bench-compare: build-bench ## measure Apache Kafka and Freshet in turn (needs Java, Maven); ARGS="--rounds 5 --duration 2m"
	$(BIN)/freshet-bench compare $(ARGS)

.PHONY: bench-groups
bench-groups: build-bench ## measure the owner under heartbeats of 10,000 groups, an agent under 10,000 idle connections
	$(BIN)/freshet-bench groups $(ARGS)

.PHONY: bench-latency
bench-latency: build-bench ## measure latency by object store, PUT budget and load; ARGS="--models s3-express --chart latency.svg"
	$(BIN)/freshet-bench latency $(ARGS)

.PHONY: bench-producers
bench-producers: build ## measure producers with default settings for DURATION (30s) each, after IDLE (2m), for --put-budget of BUDGETS (auto,4)
	FRESHET_PRODUCER_DEFAULTS=$(or $(DURATION),30s) FRESHET_PRODUCER_IDLE=$(or $(IDLE),2m) FRESHET_PRODUCER_BUDGETS=$(or $(BUDGETS),auto,4) \
	  FRESHET_BINARY=$(abspath $(BIN)/freshet) $(GO) test -vet=off -timeout 0 -count=1 -v -run '^TestProducer_Defaults$$' ./test/timing

.PHONY: bench-matrix
bench-matrix: build-bench ## run all published workloads against a broker on localhost:9092; ARGS="--scale 0.02 --duration 1m"
	$(BIN)/freshet-bench matrix $(ARGS)

.PHONY: bench-scale
bench-scale: build-bench ## measure 100,000 partitions and 10,000 idle clients while agents come and go
	$(BIN)/freshet-bench scale $(ARGS)

.PHONY: bench-tenants
bench-tenants: build-bench ## measure 1,000 virtual clusters on two replicas, 990 of them idle; ARGS="--clusters 100 --bounds"
	$(BIN)/freshet-bench tenants $(ARGS)

.PHONY: bench-requests
bench-requests: ## print what 490 MiB/s in three zones asks of the object store (driven clock, sizes only)
	FRESHET_REQUESTS=1 $(GO) test -timeout 0 -count=1 -v -run 'Requests|Rate' ./bench/requests ./agent/job/merge

.PHONY: soak-log
soak-log: build-bench ## load the metadata log for MINUTES (10), then again with snapshots failing
	$(BIN)/freshet-bench log --duration $(MINUTES)m
	$(BIN)/freshet-bench log --duration $(MINUTES)m --failing

.PHONY: soak-verify
soak-verify: ## check a cluster for DURATION (30m) while agents and owners are killed as SEED says; ARGS="--rate 2000" for more
	FRESHET_SOAK=$(or $(DURATION),30m) FRESHET_SOAK_SEED=$(SEED) FRESHET_SOAK_ARGS='$(ARGS)' $(GO) test -timeout 0 -count=1 -v -run '^TestVerify$$' ./test/soak

.PHONY: differential
differential: build ## play SEQUENCES (2000) random request sequences from SEED (1) beside Apache Kafka, with CHANGES (10) of the owner
	FRESHET_DIFFERENTIAL_SEQUENCES=$(or $(SEQUENCES),2000) FRESHET_DIFFERENTIAL_SEED=$(or $(SEED),1) FRESHET_DIFFERENTIAL_CHANGES=$(or $(CHANGES),10) \
	  FRESHET_BINARY=$(abspath $(BIN)/freshet) $(GO) test -timeout 0 -count=1 -v ./test/differential

.PHONY: kafka-next
kafka-next: build ## compare Freshet with another release of Apache Kafka, KAFKA (4.5.0), which Maven fetches
	FRESHET_KAFKA='$(or $(KAFKA),4.5.0)' $(REAL) -v -run '^Test(Differential|Sequences)' ./test/clients ./test/differential

.PHONY: elastic
elastic: ## grow and shrink a cluster under stock clients for DURATION (5m), topics of FACTOR (4); print stalls and start-up times beside their bounds
	FRESHET_ELASTIC=$(or $(DURATION),5m) FRESHET_ELASTIC_FACTOR=$(FACTOR) $(GO) test -timeout 0 -count=1 -v -run '^TestElastic$$' ./test/elastic

.PHONY: upgrade
upgrade: ## restart a cluster under load from the build of test/upgrade/testdata/base to this tree's and back, in every order
	FRESHET_UPGRADE=all $(GO) test -timeout 0 -count=1 -v ./test/upgrade

.PHONY: zones
zones: ## count what goes between zones, each a network namespace that produces SIZE (1GiB); LOOPBACK=1 does without; BREAK=listener-zone must fail
	FRESHET_ZONES=$(or $(SIZE),1GiB) FRESHET_ZONES_LOOPBACK=$(LOOPBACK) FRESHET_BREAK=$(BREAK) \
		$(GO) test -timeout 0 -count=1 -v -run '^TestZones$(if $(BREAK),_Ports,(_Ports)?)$$' ./test/zones

.PHONY: e2e-boundary
e2e-boundary: ## search for records in all bytes that control planes receive, log and store, beside a bucket that they have no route to (root on Linux, 1 minute)
	FRESHET_BOUNDARY=1 $(GO) test -timeout 10m -count=1 -v ./test/boundary

.PHONY: lostzone
lostzone: build ## let consumers of ten client versions lose their zone for good, and its agents one by one (8 minutes)
	FRESHET_LOSTZONE=1 $(REAL) -v -run '^TestLostZone_' ./test/matrix -args -bounds

.PHONY: attacks
attacks: build ## have clients ask for as much as the protocol allows, and measure how long others wait and the peak memory (Linux; 7 minutes)
	FRESHET_ATTACKS=1 $(REAL) -v -run '^TestAttacks$$' ./test/attacks -args -bounds

# Programs and images for a Kubernetes on this machine. Images have the names under which they are pulled elsewhere.
KUBE_VERSION = $(patsubst v%,%,$(shell cd tools/kube && $(GO) list -m -f '{{.Version}}' k8s.io/kubernetes))
KUBE_LDFLAGS = -s -w -X k8s.io/component-base/version.gitVersion=v$(KUBE_VERSION) -X k8s.io/component-base/version.gitMajor=1 \
  -X k8s.io/component-base/version.gitMinor=$(word 2,$(subst ., ,$(KUBE_VERSION))) -X k8s.io/client-go/pkg/version.gitVersion=v$(KUBE_VERSION)
IMAGES       = $(abspath $(BIN))/images
.PHONY: kube
kube: $(BIN)/linux-$(MACHINE)/freshet ## build what make e2e-kube needs: Kubernetes, Helm, and images of Freshet, etcd and an S3 server (10 minutes at first)
	test/kube/cluster.sh install
	CGO_ENABLED=0 $(GO) -C tools/kube build -buildvcs=false -o $(abspath $(BIN))/kube -ldflags '$(KUBE_LDFLAGS)' .
	$(GO) -C tools/helm build -o $(abspath $(BIN))/ helm.sh/helm/v4/cmd/helm
	$(GO) -C tools/image build -o $(abspath $(BIN))/image .
	mkdir -p $(IMAGES) $(BIN)/servers
	CGO_ENABLED=0 $(GO) -C tools/servers build -ldflags '-s -w' -o $(abspath $(BIN))/servers/ github.com/versity/versitygw/cmd/versitygw go.etcd.io/etcd/etcdctl/v3
	CGO_ENABLED=0 $(GO) -C tools/servers build -ldflags '-s -w' -o $(abspath $(BIN))/servers/etcd go.etcd.io/etcd/server/v3
	$(PACK) $(MACHINE)=$(abspath $(BIN))/linux-$(MACHINE)/freshet --name registry.example.com/freshet:test --output $(IMAGES)/freshet.tar
	$(PACK) $(MACHINE)=$(abspath $(BIN))/servers/versitygw --name ghcr.io/versity/versitygw:v1.8.0 --output $(IMAGES)/versitygw.tar
	$(PACK) $(MACHINE)=$(abspath $(BIN))/servers/etcd:/usr/local/bin/etcd --platform $(MACHINE)=$(abspath $(BIN))/servers/etcdctl:/usr/local/bin/etcdctl \
	  --name gcr.io/etcd-development/etcd:v3.7.3 --output $(IMAGES)/etcd.tar

.PHONY: e2e-kube
e2e-kube: kube ## install the chart on a Kubernetes on this machine, scale and break it under stock clients (root on Debian, 10 minutes)
	FRESHET_KUBE=1 $(GO) test -timeout 20m -count=1 -v ./test/kube

.PHONY: e2e-kube-sabotage
e2e-kube-sabotage: kube $(BIN)/early-ack/freshet ## check that make e2e-kube notices agents that are killed at scale-down, and agents that acknowledge before their PUT
	FRESHET_KUBE=kill $(GO) test -timeout 20m -count=1 -v ./test/kube
	$(PACK) $(MACHINE)=$(abspath $(BIN))/early-ack/freshet --name registry.example.com/freshet:test --output $(IMAGES)/freshet.tar
	FRESHET_KUBE=early-ack $(GO) test -timeout 20m -count=1 -v ./test/kube; code=$$?; rm $(IMAGES)/freshet.tar; exit $$code

# The overlay delays each PUT by 3 s and acknowledges its records meanwhile.
.PHONY: $(BIN)/early-ack/freshet
$(BIN)/early-ack/freshet:
	mkdir -p $(@D)
	sed 's/err = \(b.s.w.cfg.Retry.Put(\)ctx\(.*\)/go func() { time.Sleep(3 * time.Second); _ = \1context.WithoutCancel(ctx)\2 }()/' agent/writer/sealed.go >$(@D)/sealed.text
	! cmp -s agent/writer/sealed.go $(@D)/sealed.text
	echo '{"Replace": {"agent/writer/sealed.go": "$(@D)/sealed.text"}}' >$(@D)/overlay.json
	CGO_ENABLED=0 $(GO) build -overlay $(@D)/overlay.json -o $@ ./cmd/freshet

ECS_PROGRAM = $(BIN)/$(if $(filter early-ack,$(BREAK)),early-ack,linux-$(MACHINE))/freshet
.PHONY: e2e-ecs
e2e-ecs: $(ECS_PROGRAM) ## deploy deploy/ecs on a stand-in of ECS, and scale, roll and stop its tasks under stock clients (root on Debian); BREAK=kill and BREAK=early-ack must fail
	test/ecs/cluster/stack.sh install
	$(PACK) $(MACHINE)=$(abspath $(ECS_PROGRAM)) --directory /data --name localhost/freshet:ecs --output $(abspath $(BIN))/ecs/image.tar
	FRESHET_ECS=$(or $(BREAK),1) $(GO) test -timeout 15m -count=1 -v -artifacts -outputdir $(abspath $(BIN))/ecs ./test/ecs/cluster

.PHONY: ecs-stand-in
ecs-stand-in: $(BIN)/linux-$(MACHINE)/freshet ## deploy deploy/ecs on a stand-in of ECS, and leave it running until Ctrl-C (root on Debian; docs/ecs.md)
	test/ecs/cluster/stack.sh install
	$(PACK) $(MACHINE)=$(abspath $<) --directory /data --name localhost/freshet:ecs --output $(abspath $(BIN))/ecs/image.tar
	$(GO) test -c -o $(BIN)/ecs/cluster.test ./test/ecs/cluster
	cd test/ecs/cluster && FRESHET_ECS=stay $(abspath $(BIN))/ecs/cluster.test -test.v

.PHONY: e2e-compose
e2e-compose: $(BIN)/linux-$(MACHINE)/freshet ## run deploy/compose by podman-compose, and the commands of docs/compose.md under clients (root on Debian, 2 minutes)
	test/compose/stack.sh install
	$(PACK) $(MACHINE)=$(abspath $<) --directory /data --name localhost/freshet:compose --output $(abspath $(BIN))/compose/image.tar
	FRESHET_COMPOSE=1 $(GO) test -timeout 10m -count=1 -v ./test/compose

.PHONY: lint
lint: ## vet, linters, formatting
	$(LINT) run ./...
	cd tools/image && $(LINT) run ./...
	cd tools/deploy && $(LINT) run ./...
	cd tools/compose && $(LINT) run ./...
	$(LINT) fmt --diff >/dev/null || { echo "not formatted: run make format"; exit 1; }

# cfn-lint, and what awscheck.py reads: 280 MB, kept for all checkouts as test/harness keeps client libraries.
DEPLOY_TOOLS = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/freshet-test/deploy-$(shell cksum <tools/deploy/requirements.txt | cut -d ' ' -f 1)
$(DEPLOY_TOOLS)/done:
	rm -rf $(DEPLOY_TOOLS)
	python3 -m venv $(DEPLOY_TOOLS)
	$(DEPLOY_TOOLS)/bin/pip install --quiet --disable-pip-version-check --no-compile --no-deps --requirement tools/deploy/requirements.txt
	touch $@

.PHONY: lint-deploy
lint-deploy: $(DEPLOY_TOOLS)/done ## check deploy/ecs, whose template and Terraform module it compares, and deploy/compose (needs python3-venv)
	$(GO) -C tools/deploy build -o $(abspath $(BIN))/render .
	@failed=; run() { echo "$$*"; "$$@" || failed="$$failed; $$*"; }; \
	run $(GO) -C tools/deploy test -vet=off -count=1 ./...; \
	run env FRESHET_CFN_LINT='$(abspath $(DEPLOY_TOOLS))/bin/cfn-lint' FRESHET_RENDER='$(abspath $(BIN))/render' $(GO) test -vet=off -count=1 ./deploy/ecs; \
	run $(DEPLOY_TOOLS)/bin/python -B tools/deploy/awscheck_test.py; \
	run $(DEPLOY_TOOLS)/bin/python -B tools/deploy/awscheck.py $(wildcard deploy/ecs/terraform/*.tf deploy/ecs/terraform/examples/*/*.tf); \
	run $(GO) -C tools/compose test -vet=off -count=1 ./...; \
	if [ -n "$$failed" ]; then echo "make lint-deploy: FAILED$$failed"; false; fi

.PHONY: format
format: ## format all Go files
	$(LINT) fmt

.PHONY: golden
golden: ## write the golden files of all stored formats anew; internal/generation.Number must have been raised
	$(GO) test -count=1 ./metadata ./metadata/commit ./metadata/extent ./metadata/job ./metadata/metalog ./metadata/snapshot ./objstore/bundle ./objstore/marker -update
	$(GO) test -count=1 ./internal/generation -update

.PHONY: generate
generate: ## regenerate protobuf code and generated documentation
	$(GO) generate ./...

.PHONY: cover
cover: ## write cover.html from the unit tests
	$(GO) test -coverprofile=cover.out -coverpkg=./... $(UNIT)
	$(GO) tool cover -html=cover.out -o cover.html
	@$(GO) tool cover -func=cover.out | tail -1

.PHONY: cross
cross: ## vet for macOS: the program, and the packages that have files for other systems
	GOOS=darwin GOARCH=arm64 $(GO) vet ./cmd/... $$(GOOS=darwin $(GO) list -f '{{if .IgnoredGoFiles}}{{.ImportPath}}{{end}}' ./...)

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN) cover.out cover.html test/artifacts
