# What a newcomer runs. Each target first installs what it lacks (scripts/setup.sh).

.DEFAULT_GOAL := help
.PHONY: help run test simulate bench bench-array bench-api bench-attach bench-lab bench-group bench-ublk fuzz soak package package-test lint fmt docs clean
MAKEFLAGS += --no-print-directory

# Options of `make bench`, such as BENCH='--quick', seconds for each target of `make fuzz`,
# crashes of `make soak`, and histories of each theme of `make simulate`, or the one to replay.
BENCH ?=
SECONDS ?= 60
ROUNDS ?= 1000
SEEDS ?= 1000
SEED ?=
THEME ?=
FIRST ?=

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## build, serve an array of six files on 127.0.0.1:3260 and print what to do next; Ctrl-C stops it
	@scripts/setup.sh run
	@cargo run --release --package drystone -- up --data .drystone --socket .drystone/control.sock --hints

test: ## check format and lints, then run every test; CI calls this
	@scripts/setup.sh test
	@$(MAKE) lint
	@scripts/test.sh

simulate: ## run the array in SEEDS=1000 random histories of each theme; SEED=N THEME=NAME replays one
	@scripts/setup.sh test
	@SEEDS='$(SEEDS)' SEED='$(SEED)' THEME='$(THEME)' FIRST='$(FIRST)' scripts/simulate.sh

bench: ## measure Drystone beside the other targets it finds; BENCH='--quick' for one short round
	@scripts/setup.sh bench
	@scripts/bench.sh compare $(BENCH)

bench-array: ## measure RAID levels against their disks and against btrfs; takes BENCH='--quick' too
	@scripts/setup.sh bench
	@scripts/bench.sh array $(BENCH)

bench-api: ## measure a member with 1,000 volumes, 16 records and 8 snapshots each: list, discovery, login, start, memory
	@scripts/setup.sh test
	@cargo build --release --package drystone
	@DRYSTONE_BIN="$$(scripts/target-dir.sh)/release/drystone" DRYSTONE_API_VOLUMES=1000 \
	  cargo test --package drystone --test api -- --nocapture scale::
	@cargo test --quiet --release --package drystone-target --package drystone-member --lib -- --nocapture _costs

bench-attach: ## measure what drystone attach costs for each read of its NBD clients; takes BENCH='--rounds 1'
	@scripts/setup.sh bench
	@scripts/bench.sh hosts --parts attach $(BENCH)

bench-lab: ## measure what drystone lab costs for each read, beside the bare initiator and fio; takes BENCH='--rounds 1'
	@scripts/setup.sh bench
	@scripts/bench.sh lab $(BENCH)

bench-group: ## measure a group of three members beside a member in none; takes BENCH='--quick' too
	@scripts/setup.sh bench
	@scripts/bench.sh group $(BENCH)

bench-ublk: ## measure the block device of drystone attach beside the kernel's own initiator, in a virtual machine
	@scripts/setup.sh test
	@cargo build --release --package drystone
	@DRYSTONE_BIN="$$(scripts/target-dir.sh)/release/drystone" \
	  tests/vm/run.sh --limit 600 bench/ublk

fuzz: ## fuzz what comes from the wire, each target for SECONDS=60
	@scripts/setup.sh fuzz
	@scripts/fuzz.sh $(SECONDS)

soak: ## end a loaded target and array ROUNDS=1000 times each by kill -9 and by power cuts, a configuration and disks that change a tenth as often, cut networks, run out of memory, wear the interface
	@scripts/setup.sh run
	@DRYSTONE_CRASH_ROUNDS=$(ROUNDS) DRYSTONE_SETTINGS_ROUNDS=$$(( $(ROUNDS) / 10 + 1 )) \
	  DRYSTONE_DISK_ROUNDS=$$(( $(ROUNDS) / 10 + 1 )) \
	  cargo test --release --package drystone --test crash -- --nocapture
	@DRYSTONE_NETWORK_ROUNDS=$$(( $(ROUNDS) / 20 + 1 )) cargo test --release --package drystone --test networks -- --nocapture
	@DRYSTONE_SCARCITY_SEEDS=$(ROUNDS) DRYSTONE_MANY_HOSTS=$(ROUNDS) \
	  cargo test --release --package drystone-target --test wire -- --nocapture scarcity:: many::
	@DRYSTONE_API_SECONDS=$(ROUNDS) DRYSTONE_API_LOAD_SECONDS=600 DRYSTONE_API_IDLE=10000 \
	  cargo test --release --package drystone --test api -- --nocapture properties:: endurance::

package: ## build the Debian package, as target/package/drystone_VERSION_ARCH.deb
	@scripts/setup.sh package
	@cargo build --release --package drystone
	@mkdir -p target/package
	@scripts/package.sh "$$(scripts/target-dir.sh)/release/drystone" target/package

package-test: package ## install, use, remove and purge that package in clean roots of Debian 12 and 13, and in a container; needs root
	@scripts/setup.sh package-test
	@scripts/package-test.sh "$$(ls -t target/package/drystone_*.deb | head -n 1)" bookworm trixie
	@scripts/container-test.sh "$$(ls -t target/package/drystone_*.deb | head -n 1)"

lint: ## check format and lints
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings

fmt: ## format all code
	cargo fmt --all

docs: ## bring the generated parts of docs/ up to date, build the API documentation of all rooms
	DRYSTONE_DOCS_WRITE=1 cargo test --quiet --package drystone --test docs -- generated_parts the_openapi_document
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' cargo doc --workspace --no-deps --document-private-items

clean: ## delete what was built; the disks of `make run` in .drystone stay
	cargo clean
