# `make demo` and `make test` do all set-up themselves, or name what they need.
CARGO ?= cargo
.PHONY: demo test check compile test-long long-crash long-aged long-mutations long-clients long-faults long-reproduction long-vm long-takeover long-package long-python long-fuzz install uninstall deb rootfs docs bench bench-index bench-cos bench-policies build setup lint unit python clients readme page cos reproduction faults clean help

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

demo: ## a slow volume with and without Nitro, side by side, in about two minutes after the build
	@scripts/setup demo
	@$(CARGO) build --release --quiet -p nitro
	@scripts/demo

# The parts of `make test`, in order.
PARTS = lint compile unit docs python clients faults readme page cos reproduction
# `make test` tests the program that the unit tests are built with (little optimised, with checks for overflow); a target alone
# tests the one that users get.
test: export NITRO = $(CURDIR)/target/debug/nitro
test: ## format, lints, all tests, the Python package, other people's NBD clients, faults, the README's commands, a deduplicating store, some cells of the evaluations
	@scripts/setup test
	@scripts/in-parts test $(PARTS)

check: ## format and lints, then tests of the crates that changed; BASE is the commit to compare with
	scripts/check $(BASE)

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) fmt --manifest-path crates/cluster/exhaust/Cargo.toml --check
	$(CARGO) check --quiet --manifest-path fuzz/Cargo.toml --target-dir target --locked --bins
	scripts/check-dependencies
	scripts/check-licences
	scripts/check-mutations
	scripts/check-agent

compile:
	$(CARGO) test --workspace --no-run

unit:
	$(CARGO) test --workspace

build:
	$(CARGO) build --release -p nitro -p nitro-lab

# What tests a program builds the release, unless NITRO names one.
TESTED = $(if $(NITRO),,build)

python: # where there is Python, and a network or its packages
	$(if $(NITRO),,$(CARGO) build --release -p nitro-python)
	scripts/test-python || [ $$? = 77 ]

clients: $(TESTED)
	scripts/test-clients

faults: $(TESTED)
	scripts/test-faults

docs: ## the pages of docs/ as a site in target/book
	scripts/build-docs || [ $$? = 77 ]

readme: $(TESTED)
	scripts/test-readme

page: $(TESTED) # where Chromium and Prometheus are installed; make test-long installs them
	scripts/test-page || [ $$? = 77 ]

cos: $(TESTED)
	scripts/test-cos

reproduction: $(TESTED)
	scripts/test-reproduce --cells

# The parts of `make test-long`, in order. Each is a target, too.
LONG_PARTS = long-crash long-aged long-mutations long-clients long-faults long-reproduction long-vm long-takeover long-package long-python long-fuzz
test-long: ## the slow ones: long simulations, faults, kills, power cuts in a virtual machine, hosts that take over, databases, aged file systems, fuzzing; goes on with the part that failed
	@scripts/setup long
	@scripts/setup-long
	@scripts/in-parts --resume test-long $(LONG_PARTS)

long-crash:
	NITRO_SEEDS=x10 $(CARGO) test --release -p nitro-engine -p nitro-index -p nitro-cos -p nitro-s3 --test main --test crash

long-aged:
	NITRO_SEEDS=10 $(CARGO) test --release -p nitro-detect --test main -- --include-ignored aged

long-mutations:
	scripts/test-mutations --minutes 40

long-clients: build
	scripts/test-clients --long

long-faults: build
	scripts/test-faults --minutes 30

long-reproduction: build
	scripts/test-reproduce

long-vm: build
	scripts/test-long

long-takeover: build
	scripts/test-takeover

long-package: build
	scripts/test-package

long-python: build # the wheel as pip builds it, and Ray
	scripts/test-wheel || [ $$? = 77 ]

long-fuzz:
	for target in $$(ls fuzz/fuzz_targets | sed 's/\.rs//'); do fuzz/run $$target 60 || exit 1; done

bench: ## figures beside qemu-nbd, nbdkit, the raw device and foyer, as ratios of one run
	@scripts/setup bench
	$(CARGO) build --release -p nitro -p nitro-lab -p nitro-bench
	scripts/bench

bench-policies: build ## what policies hit over traces, at several sizes, beside LRU, S3-FIFO and the optimum
	scripts/bench-policies

bench-peers: build ## Nitro, bcache and dm-cache over the same traces, in a virtual machine: hits and bytes
	@scripts/setup-long
	scripts/bench-peers

bench-index: ## both kinds of flash index beside the device, RocksDB and BerkeleyDB, and the engine with either
	@scripts/setup bench-index || echo "going on without RocksDB or BerkeleyDB"
	$(CARGO) build --release -p nitro -p nitro-lab -p nitro-bench
	scripts/bench-index

bench-python: ## the Python package beside libcachesim, and 64 workers of Dask
	scripts/test-wheel --bench

bench-cos: ## the deduplicating store beside restic, borg and casync, and on one core beside BLAKE3 and LZ4 alone
	@scripts/setup bench
	$(CARGO) build --release -p nitro -p nitro-lab -p nitro-bench
	scripts/bench-cos

PREFIX ?= /usr/local
DESTDIR ?=
install: build ## program, manual pages, completions, units and a default configuration, below PREFIX (and DESTDIR)
	scripts/install "$(DESTDIR)" "$(PREFIX)"

uninstall: ## removes what make install installed below PREFIX (and DESTDIR); configurations stay
	scripts/uninstall "$(DESTDIR)" "$(PREFIX)"

deb: build ## a Debian package in target/deb
	scripts/make-deb

rootfs: deb ## a root file system with the package, for container runtimes, in target/deb; as root
	scripts/make-rootfs $$(ls -t target/deb/*.deb | head -1) target/deb/nitro-rootfs.tar

clean:
	$(CARGO) clean
