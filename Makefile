# Berth's targets. `make` alone lists them; README.md and CONTRIBUTING.md say when to use which.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help prerequisites build test test-ui test-image pictures packing e2e-minor conformance-devices soak mutants hostile faults long-run hand-over upgrade commands shadow fuzz conformance lint actionlint deny fmt demo upstream bench bench-e2e crds chart dist image clean

CRD := crds/scheduling.berth.dev_schedulerprofiles.yaml
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
SCRIPTS := $(wildcard hack/*.sh) .ci/run
# What `make deny` builds once, and where.
CARGO_DENY := 0.20.2
TOOLS := $(or $(BERTH_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/berth)/tools

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

prerequisites:
	@hack/prerequisites.sh

build: prerequisites ## build the release binary: target/release/berth
	cargo build --release --locked

test: prerequisites ## run all tests, those on a real control plane included
	@hack/beside.sh -- cargo test --workspace --locked --no-run --quiet
	@hack/timed.sh cargo test --workspace --locked --no-fail-fast

test-ui: prerequisites ## the page of --html in a real Chromium; PICTURES=folder keeps screenshots, TIMES=1 makes the bounds on times count
	@chromium=$$(hack/chromium.sh) && BERTH_CHROMIUM=$$chromium BERTH_UI_PICTURES=$(PICTURES) BERTH_UI_TIMES=$(TIMES) \
	  cargo test --workspace --locked --test ui -- --ignored --nocapture --test-threads=1

# The debug binary has its turn in `make test`. What is built here is what hack/image.sh and hack/dist.sh build.
test-image: prerequisites ## what `make test` tries of the image, with the binary that `make image` and `make dist` package (needs apt-get)
	cargo build --profile dist --locked --bin berth
	@BERTH_IMAGE_BINARY=$$(realpath "$${CARGO_TARGET_DIR:-target}/dist/berth") \
	  cargo test --workspace --locked --no-fail-fast --test image

pictures: prerequisites ## draw what docs/pictures holds: the tables of docs/benchmarks.md, the dashboard of a real run, and screenshots of the page (needs Chromium)
	@hack/pictures.sh
	@BERTH_DASHBOARD=$(CURDIR)/docs/pictures/dashboard.svg cargo test --workspace --locked --test e2e -- our_dashboard
	@$(MAKE) --no-print-directory test-ui PICTURES=target/ui
	@cp target/ui/simulate-light.png target/ui/simulate-dark.png target/ui/large-light.png docs/pictures/

e2e-minor: prerequisites ## the end-to-end tests on another minor of Kubernetes, MINOR (1.35); tests/upstream has the pins of each
	@BERTH_KUBERNETES=$(or $(MINOR),1.35) hack/upstream.sh
	@BERTH_KUBERNETES=$(or $(MINOR),1.35) hack/timed.sh cargo test --workspace --locked --no-fail-fast \
	  --test e2e --test chart --test crd_refusals --test no_drift

conformance: prerequisites upstream ## compare with upstream on N clusters (20000) from a fresh seed, SEED=… repeats a run; then on devices
	@BERTH_CONFORMANCE_CLUSTERS=$(or $(N),20000) BERTH_SEED=$(or $(SEED),random) \
	  cargo test --workspace --locked --test conformance -- --nocapture every_answer_is_upstreams
	@$(MAKE) --no-print-directory conformance-devices

conformance-devices: prerequisites ## compare with upstream ALLOCATIONS (200000) of devices, PODS (30000) that need some, and 200,000 expressions
	@BERTH_DEVICES_CASES=$(or $(ALLOCATIONS),200000) cargo test --workspace --locked --test differential -- --nocapture devices_are_those
	@BERTH_CLAIMS_CASES=$(or $(PODS),30000) cargo test --workspace --locked --test dynamic_resources -- --nocapture
	@BERTH_CEL_CASES=200000 cargo test --locked -p berth-cel --test differential -- --nocapture

soak: prerequisites ## N worlds (20000) from seeds, each run twice, on all cores, in a release build; FIRST=… is the first seed, SEED=… the only one
	@BERTH_WORLDS=$(or $(N),20000) BERTH_WORLD_FIRST=$(or $(FIRST),random) BERTH_WORLD_SEED=$(SEED) BERTH_WORLD_TWICE=1 \
	  cargo test --release --locked --test simulation -- --nocapture no_world_breaks_a_rule

mutants: prerequisites ## prove that worlds, or the test that it names, catch each known bug of tests/mutants; ONLY="name …" picks, N=… worlds at most
	@N=$(or $(N),300) hack/mutants.sh $(ONLY)

hostile: prerequisites upstream ## hostile objects beside a neighbour on a real control plane; ONLY=text picks, WHICH=short the worst
	@BERTH_HOSTILE=$(or $(WHICH),all) BERTH_HOSTILE_ONLY="$(ONLY)" cargo test --workspace --locked --test hostile -- --nocapture

faults: prerequisites upstream ## break real processes, connections and rights under load, then check the cluster; ONLY="text|text" picks, WHICH=short is small, RATE=… (250) is pods a second
	@BERTH_FAULTS=$(or $(WHICH),all) BERTH_FAULTS_ONLY="$(ONLY)" BERTH_FAULTS_RATE=$(or $(RATE),$(BERTH_FAULTS_RATE)) cargo test --workspace --locked --test faults -- --nocapture

long-run: prerequisites upstream ## MINUTES (30) of pods and nodes that come and go under two operators: memory, and what is left; RATE=… (35) is pods a second
	@BERTH_LONG_RUN=$(or $(MINUTES),30) BERTH_FAULTS_RATE=$(or $(RATE),$(BERTH_FAULTS_RATE),35) cargo test --workspace --locked --test faults -- --nocapture memory_does_not_grow

hand-over: prerequisites upstream ## how long nothing is bound when the leader of 5,000 nodes and PODS (150000) ends, and in an upgrade; run it alone: its limits count
	@BERTH_HAND_OVER=$(or $(PODS),150000) cargo test --workspace --locked --test faults -- --nocapture a_leader_of_a_large_cluster
	@BERTH_HAND_OVER=$(or $(PODS),150000) cargo test --workspace --locked --test e2e -- --nocapture --test-threads=1 two_replicas an_upgrade

upgrade: prerequisites upstream ## roll from the binary and chart of commit FROM=… to those of this tree and back, under load; run it alone: its limits count
	@BERTH_HAND_OVER=1 hack/upgrade.sh $(FROM)

commands: prerequisites upstream ## time and memory of each command on a real cluster of 1,000 nodes and 10,000 pods, by the release build
	cargo build --release --locked --bin berth
	@BERTH_BINARY=$(CURDIR)/target/release/berth cargo test --workspace --locked --test e2e -- --ignored --nocapture each_command_is_measured

shadow: prerequisites upstream ## PODS (10000) of mixed kinds beside kube-scheduler and a profile in mode DryRun, one after the other and then as many at once
	@BERTH_SHADOW_PODS=$(or $(PODS),10000) cargo test --workspace --locked --test e2e -- --nocapture a_dry_run_with_equal_settings

fuzz: prerequisites ## hostile pods on N clusters (1000) of NODES (1000) from a fresh seed, each decision timed; SEED=… CASE=… repeat
	@BERTH_FUZZ_CASES=$(or $(N),1000) BERTH_SEED=$(or $(SEED),random) BERTH_FUZZ_CASE=$(CASE) BERTH_FUZZ_NODES=$(NODES) \
	  cargo test --release --locked --test fuzz -- --ignored --nocapture hostile_pods_are_decided_in_time

lint: prerequisites ## formatting, clippy, shell syntax; warnings are errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	@for script in $(SCRIPTS); do bash -n "$$script"; done

actionlint: ## check the workflows of .github (needs Go, which builds the linter the first time)
	@go run $(ACTIONLINT)

deny: ## licences, advisories and duplicates of dependencies (deny.toml); CHECKS="bans licenses sources" needs no list of advisories
	cargo install --locked --quiet --root $(TOOLS) cargo-deny@$(CARGO_DENY)
	$(TOOLS)/bin/cargo-deny --locked check $(CHECKS)

fmt: ## format the sources
	cargo fmt --all

# Operator and demo are built as the tests build them (any test of their packages will do), so that `make test` finds them built.
# The features of dependencies are those of all packages that a command names: each command that runs tests names all of them.
demo: prerequisites ## a guided tour on a real control plane; KEEP=1 leaves it running
	@hack/beside.sh --demo -- cargo test --workspace --locked --no-run --test tidy --test control_plane
	@$${CARGO_TARGET_DIR:-target}/debug/berth-demo $(if $(KEEP),--keep)

upstream: prerequisites ## build the real control plane once (Kubernetes, etcd, kwok, helm), into a cache
	@hack/upstream.sh

bench: prerequisites ## measure the engine alone; ARGS=all has the long rows as well, ARGS="text" those with it in their name
	@BERTH_BENCH_ALL=$(if $(filter all,$(ARGS)),1) cargo bench --locked --bench engine -- $(if $(filter-out all,$(ARGS)),"$(filter-out all,$(ARGS))")

packing: prerequisites ## how much of a cluster's accelerators profiles get used: the table of docs/packing.md; ARGS="--seeds 20"
	@cargo test --quiet --workspace --locked --bench packing -- $(ARGS)

bench-e2e: prerequisites upstream ## measure Berth beside kube-scheduler on one control plane; ARGS="--nodes 200 …"
	cargo build --release --locked --bin berth
	@cargo run --release --quiet --locked -p berth-lab --bin berth-bench-e2e -- $(ARGS)

crds: prerequisites ## write the CRD from the Rust types, for kubectl and for the chart
	@mkdir -p $(dir $(CRD))
	cargo run --quiet --locked -- crd > $(CRD).new
	@mv $(CRD).new $(CRD)
	@cp $(CRD) charts/berth/files/crd.yaml

chart: upstream ## write what follows from the chart: the table in its README, and config/ for kustomize
	@hack/chart.sh

dist: prerequisites upstream ## package a release into dist/: binary, symbols, completions, man pages, chart, bill of materials, krew manifest, checksums
	@hack/dist.sh

image: prerequisites ## make the image without a daemon (needs apt-get), its symbols and its bill of materials: dist/image; BINARY=… takes one that is built
	@hack/image.sh $(BINARY)

clean: ## remove what cargo built; the cache of upstream parts stays
	cargo clean
