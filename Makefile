# `make help` lists the targets for users and maintainers.

SHELL := /bin/bash
.DEFAULT_GOAL := help

CARGO := tools/cargo
BARE := riscv64imac-unknown-none-elf
TARGET := $(or $(CARGO_TARGET_DIR),target)
FUZZ_SECONDS := 600
CLI := $(TARGET)/release/poorwill
OPENSBI := usr/lib/riscv64-linux-gnu/opensbi/generic/fw_dynamic.bin

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

.PHONY: demo
demo: say-demo setup fetch build guest ## Show a Debian machine that sleeps with the power off, and wakes
	@$(CLI) demo

.PHONY: test
test: say-test setup fetch build guest test-kernel loader critical hostile opensbi u-boot edk2 plugin poison-free hand-back check-blocks ## Run every test
	@POORWILL_STRICT=1 $(MAKE) --no-print-directory check-code test-host
	@$(MAKE) --no-print-directory count
	@POORWILL_STRICT=1 $(CARGO) test --locked --quiet --release -p poorwill-tests --test doctor --test traces
	@tools/fuzz --seconds 5
	@POORWILL_STRICT=1 $(CARGO) test --locked --release -p poorwill-tests --test machines

.PHONY: test-long
test-long: say-test-long setup fetch build guest test-kernel loader critical u-boot edk2 plugin hand-back check-blocks ## Run the long tests, which `make test` leaves out
	@$(CARGO) test --locked --quiet --release -p poorwill-tests --test executor -- --ignored
	@POORWILL_STRICT=1 $(CARGO) test --locked --release -p poorwill-tests --test machines -- --ignored

.PHONY: demo-snapshot
demo-snapshot: say-demo-snapshot setup fetch build guest ## Show an appliance that wakes from its snapshot at each power-on
	@$(CLI) demo snapshot

.PHONY: demo-cut
demo-cut: say-demo-cut setup fetch build guest loader plugin ## Show a machine with persistent memory that resumes after each of ten power failures
	@$(CLI) demo cut

.PHONY: demo-domains
demo-domains: say-demo-domains setup fetch build guest critical ## Show a critical guest and a Linux that share a machine, sleep together and wake in order
	@$(CLI) demo domains

CUTS ?= 300
SEED ?=
COUNT ?= 20

.PHONY: soak
soak: say-soak setup build test-kernel ## Cut the power of sleeping and waking machines at random (CUTS=300; SEED=N repeats a run)
	@POORWILL_STRICT=1 POORWILL_CUTS=$(CUTS) POORWILL_SEED=$(SEED) $(CARGO) test --locked --release -p poorwill-tests --test machines -- power-cuts

.PHONY: sentences
sentences: ## Draw COUNT=20 sentences at random from docs, comments and messages: SEED= to repeat
	@COUNT=$(COUNT) SEED=$(SEED) $(CARGO) run --locked --quiet -p poorwill-tests --bin sentences

ROUNDS_OF_CUTS ?= 1
# Rows with few cuts at a chosen instant are repeated, for ten cuts at each instant.
ROWS_OF_CUTS := cut-random cut-vault-random cut-disks cut-vault-disks cut-sata cut-volatile cut-nvme-reset cut-work \
	cut-acknowledged cut-instant cut-instant $(foreach again,1 2 3 4 5,cut-instant-retain cut-load cut-persist)

.PHONY: soak-cut
soak-cut: setup build guest test-kernel loader plugin ## Cut machines with persistent memory at random and chosen instants: 400 cuts a round (ROUNDS_OF_CUTS=1)
	@echo "soak-cut: about 40 minutes for each of $(ROUNDS_OF_CUTS) rounds"
	@for round in $$(seq $(ROUNDS_OF_CUTS)); do for row in $(ROWS_OF_CUTS); do POORWILL_STRICT=1 $(CARGO) test --locked --quiet --release -p poorwill-tests --test machines -- --include-ignored $$row || exit 1; done; done

.PHONY: figures-cut
figures-cut: setup build guest loader plugin ## Measure Stop and Go on 1 and 8 harts (ROUNDS=20 each): build/figures-cut.md
	@echo "figures-cut: about 40 minutes"
	@POORWILL_ROUNDS=$(if $(filter command line,$(origin ROUNDS)),$(ROUNDS)) $(CARGO) test --locked --quiet --release -p poorwill-tests --test figures

.PHONY: figures-domains
figures-domains: setup fetch build guest critical hostile plugin ## Measure the critical guest beside other domains: build/figures-domains.md
	@echo "figures-domains: about 15 minutes"
	@POORWILL_STRICT=1 $(CARGO) test --locked --quiet --release -p poorwill-tests --test figures-domains

WAKES ?= 200

.PHONY: soak-domains
soak-domains: setup fetch build guest critical hostile plugin ## Wake each machine with domains WAKES=1000 times, end its Linux ten times in each way, let harts start each other amid 100,000 sleeps, and cut the power CUTS=200 times (about 105 minutes)
	@POORWILL_STRICT=1 POORWILL_WAKES=$(if $(filter command line,$(origin WAKES)),$(WAKES),1000) $(CARGO) test --locked --release -p poorwill-tests --test machines -- domains-
	@POORWILL_STRICT=1 POORWILL_CUTS=$(if $(filter command line,$(origin CUTS)),$(CUTS),200) POORWILL_SEED=$(SEED) $(CARGO) test --locked --release -p poorwill-tests --test machines -- domains-cuts

.PHONY: soak-snapshot
soak-snapshot: say-soak-snapshot setup fetch build guest ## Wake snapshots (WAKES=200), and cut the power during other wakes
	@POORWILL_STRICT=1 POORWILL_WAKES=$(WAKES) $(CARGO) test --locked --release -p poorwill-tests --test machines -- linux-snapshot

.PHONY: soak-executor
soak-executor: say-soak-executor setup fetch build guest ## Sleep with a weak core, AHCI and network (WAKES=200), on 1, 2 and 4 harts
	@POORWILL_STRICT=1 POORWILL_WAKES=$(WAKES) $(CARGO) test --locked --release -p poorwill-tests --test machines -- tiny-executor-soak

.PHONY: say-demo say-demo-cut say-demo-domains say-demo-snapshot say-test say-test-long say-bench say-bench-snapshot say-bench-domains say-soak say-soak-executor say-soak-snapshot say-fuzz say-perf
say-demo:
	@echo "demo: about 2 minutes; the first time about 11, for the toolchain and the guest"
say-test:
	@echo "test: about 30 minutes, on a slow host 50; the first time 20 more, for the toolchain, the guest and the builds"
say-demo-cut:
	@echo "demo-cut: about 8 minutes; the first time about 17, for the toolchain and the guest"
say-demo-domains:
	@echo "demo-domains: about a minute; the first time about 10, for the toolchain and the guest"
say-demo-snapshot:
	@echo "demo-snapshot: about 4 minutes; the first time about 15, for the toolchain and the guest"
say-test-long:
	@echo "test-long: about an hour; the first time 15 minutes more, for the toolchain and the guest"
say-soak:
	@echo "soak: about 1 minute for each 60 cuts"
say-soak-executor:
	@echo "soak-executor: about 30 minutes for 200 wakes"
say-soak-snapshot:
	@echo "soak-snapshot: about 20 minutes for 200 wakes in each of four trials"
say-bench:
	@echo "bench: about 18 minutes, with QUICK=1 less than 5; the first time 10 more, for the toolchain and the guest"
say-bench-snapshot:
	@echo "bench-snapshot: about 20 minutes; the first time 10 more, for the toolchain and the guest"
say-bench-domains:
	@echo "bench-domains: about 45 minutes; the first time 10 more, for the toolchain and the guest"
say-perf:
	@echo "perf: about 4 minutes, and one more for a base that is new; the first time 5 more, for the toolchain"

say-fuzz:
	@echo "fuzz: $(FUZZ_SECONDS) seconds for each target, one target for each core at a time"

.PHONY: fuzz
fuzz: say-fuzz setup-tools ## Fuzz the parsers of disks, device trees and buses (FUZZ_SECONDS=600 each)
	@tools/fuzz --seconds $(FUZZ_SECONDS)

.PHONY: check
check: setup-tools check-code test-host ## Check format, lints, host tests, licences and advisories; needs no emulator

.PHONY: check-code
check-code:
	@echo "check: format"
	@$(CARGO) fmt --all --check
	@echo "check: clippy"
	@$(CARGO) clippy --locked --quiet --release --workspace --all-targets --exclude poorwill-firmware --exclude poorwill-arch --exclude poorwill-test-kernel --exclude poorwill-bare --exclude poorwill-hostile --exclude poorwill-guest-entry --exclude poorwill-guest-client -- -D warnings
	@$(CARGO) bare clippy --locked --quiet -p poorwill-firmware -p poorwill-arch -p poorwill-test-kernel -p poorwill-bare -p poorwill-loader -p poorwill-critical -p poorwill-hostile --features poorwill-loader/program,poorwill-critical/program -- -D warnings
	@$(CARGO) guest clippy --locked --quiet -p poorwill-guest-entry -p poorwill-guest-client -p poorwill-guest-tool -p poorwill-stand-ins --features poorwill-guest-tool/program,poorwill-stand-ins/program -- -D warnings
	@tools/advisories

.PHONY: test-host
test-host: ## Run the tests that need no emulator
	@$(CARGO) test --locked --quiet --release --workspace --exclude poorwill-firmware --exclude poorwill-arch --exclude poorwill-test-kernel --exclude poorwill-bare --exclude poorwill-hostile --exclude poorwill-guest-entry --exclude poorwill-guest-client --exclude poorwill-tests
	@$(CARGO) test --locked --quiet --release -p poorwill-tests --lib

SUITES ?= ../suites

.PHONY: suites
suites: setup-tools firmware ## Run kvm-unit-tests' SBI suite, cloned below SUITES=FOLDER
	@tools/suites $(SUITES)

.PHONY: mutants
mutants: setup fetch build guest test-kernel loader critical hostile plugin hand-back ## Remove checks from the firmware, one at a time, and see that a test fails
	@tools/mutants

QUICK ?=

.PHONY: bench
bench: say-bench setup fetch build guest test-kernel ## Measure Poorwill and its competitors, and write the report (QUICK=1 for a short run)
	@$(CLI) bench $(if $(QUICK),--quick) --save build/bench.json
	@$(MAKE) --no-print-directory report

.PHONY: bench-snapshot
bench-snapshot: say-bench-snapshot setup fetch build guest ## Measure an appliance's cold, hibernated and snapshot starts, 10 times each, for the report
	@$(CLI) bench snapshot --rounds 10 --save build/snapshot.json
	@$(MAKE) --no-print-directory report

.PHONY: bench-domains
bench-domains: say-bench-domains setup fetch build guest critical ## Measure 100 wakes of each kind of a critical guest and a Linux in domains, for the report
	@$(CLI) bench domains --rounds 100 --save build/domains.json
	@$(MAKE) --no-print-directory report

.PHONY: report
report: cli ## Write build/report.html from the last `make bench`, `make bench-snapshot` and `make bench-domains`
	@$(CLI) report $(or $(wildcard build/bench.json build/snapshot.json build/domains.json),build/bench.json) -o build/report.html

BASE ?=

.PHONY: perf
perf: say-perf setup build test-kernel ## Compare the firmware's instruction counts with BASE=COMMIT (default: the last commit)
	@$(MAKE) --no-print-directory count ROUNDS=5

# Measurements of each of the two firmwares.
ROUNDS ?= 2

.PHONY: count
count: firmware irqs-off test-kernel
	@echo "perf: instructions"
	@base=$$(tools/base $(BASE)) && POORWILL_BASE=$$base POORWILL_ROUNDS=$(ROUNDS) POORWILL_STRICT=1 $(CARGO) test --locked --quiet --release -p poorwill-tests --test instructions

TREES ?=

.PHONY: boards
boards: firmware ## Write the table of boards in docs/platforms.md from the device trees in TREES=FOLDER
	@test -d "$(TREES)" || { echo "boards: TREES names no folder of device trees"; exit 2; }
	@POORWILL_BLESS=1 POORWILL_TREES=$(abspath $(TREES)) $(CARGO) test --locked --quiet --release -p poorwill --test boards

.PHONY: run
run: setup fetch build guest ## Start a Debian machine on this terminal; after a sleep the next run wakes it
	@$(CLI) run

.PHONY: build
build: firmware cli ## Build the firmware and the host command

.PHONY: firmware
firmware: setup-tools ## Build build/poorwill.elf
	@mkdir -p build
	@echo "firmware: building (two to four minutes the first time)"
	@$(CARGO) bare build --locked --quiet -p poorwill-firmware
	@cp $(TARGET)/$(BARE)/bare/poorwill build/poorwill.elf

.PHONY: cli
cli: setup-tools ## Build the host command, target/release/poorwill
	@echo "cli: building the host command (one to two minutes the first time)"
	@$(CARGO) build --release --locked --quiet -p poorwill

.PHONY: test-kernel
test-kernel: setup-tools
	@mkdir -p build
	@$(CARGO) bare build --locked --quiet -p poorwill-test-kernel
	@cp $(TARGET)/$(BARE)/bare/poorwill-test-kernel build/test-kernel.bin

.PHONY: loader
loader: setup-tools ## Build build/loader.bin, which starts a kernel from flash
	@mkdir -p build
	@$(CARGO) bare build --locked --quiet -p poorwill-loader --features program
	@cp $(TARGET)/$(BARE)/bare/poorwill-loader build/loader.bin

.PHONY: hostile
hostile: setup-tools ## Build build/hostile.bin, the guest for tests of domains (tests/hostile)
	@mkdir -p build
	@$(CARGO) bare build --locked --quiet -p poorwill-hostile
	@cp $(TARGET)/$(BARE)/bare/poorwill-hostile build/hostile.bin

.PHONY: edk2
edk2: setup-tools ## Unpack build/edk2-code.fd and build/edk2-vars.fd, EDK2 of the guest's lock
	@mkdir -p build
	@file=$$(tools/pool fetch efi | grep /qemu-efi-riscv64_) && for part in code vars; do \
	    dpkg-deb --fsys-tarfile "$$file" | tar -xO ./usr/share/qemu-efi-riscv64/RISCV_VIRT_$${part^^}.fd >build/edk2-$$part.fd; done || \
	    { echo 'edk2: the lock'"'"'s package cannot be loaded: its test will be skipped'; rm -f build/edk2-*.fd; }

.PHONY: opensbi
opensbi: setup-tools ## Unpack build/opensbi.bin, the newest OpenSBI in the guest's lock, or else the installed one
	@mkdir -p build
	@file=$$(tools/pool fetch peers | grep /opensbi_) && dpkg-deb --fsys-tarfile "$$file" | \
	    tar -xO ./$(OPENSBI) >build/opensbi.bin || \
	    { echo 'opensbi: the lock'"'"'s package cannot be loaded; the installed one stands for it'; cp /$(OPENSBI) build/opensbi.bin; }

U_BOOT := usr/lib/u-boot/qemu-riscv64_smode/uboot.elf

.PHONY: u-boot
u-boot: setup-tools ## Unpack build/u-boot.elf, the U-Boot in the guest's lock, or else the installed one
	@mkdir -p build
	@file=$$(tools/pool fetch u-boot) && dpkg-deb --fsys-tarfile "$$file" | \
	    tar -xO ./$(U_BOOT) >build/u-boot.elf || \
	    { echo 'u-boot: the lock'"'"'s package cannot be loaded; the installed one stands for it'; cp /$(U_BOOT) build/u-boot.elf; }

.PHONY: critical
critical: setup-tools ## Build build/critical.bin, the critical guest (guest/critical)
	@mkdir -p build
	@$(CARGO) bare build --locked --quiet -p poorwill-critical --features program
	@cp $(TARGET)/$(BARE)/bare/poorwill-critical build/critical.bin

# Models the caches of boards with persistent memory, which QEMU lacks. The new file is renamed
# into place, since a running QEMU has the last one mapped.
.PHONY: plugin
plugin: setup-tools
	@mkdir -p build
	@$(CARGO) build --release --locked --quiet -p poorwill-plugin
	@cp $(TARGET)/release/libpoorwill_plugin.so build/poorwill-plugin.so.new
	@mv build/poorwill-plugin.so.new build/poorwill-plugin.so

.PHONY: poison-free
poison-free: setup-tools
	@mkdir -p build
	@$(CARGO) bare build --locked --quiet -p poorwill-firmware --features poison-free,stack-marks,panic-call
	@cp $(TARGET)/$(BARE)/bare/poorwill build/poorwill-poison-free.elf

.PHONY: hand-back
hand-back: setup-tools
	@mkdir -p build
	@$(CARGO) bare build --locked --quiet -p poorwill-firmware --features hand-back
	@cp $(TARGET)/$(BARE)/bare/poorwill build/poorwill-hand-back.elf

.PHONY: check-blocks
check-blocks: setup-tools
	@mkdir -p build
	@$(CARGO) bare build --locked --quiet -p poorwill-firmware --features check-blocks
	@cp $(TARGET)/$(BARE)/bare/poorwill build/poorwill-check-blocks.elf

.PHONY: irqs-off
irqs-off: setup-tools
	@mkdir -p build
	@$(CARGO) bare build --locked --quiet -p poorwill-firmware --features irqs-off
	@cp $(TARGET)/$(BARE)/bare/poorwill build/poorwill-irqs-off.elf

# Comes before all builds, so that a missing network is reported in the first minute.
.PHONY: fetch
fetch: setup ## Download the guest's packages and the crates (300 MB, once)
	@tools/guest --fetch
	@$(CARGO) fetch --locked --quiet

.PHONY: relock
relock: setup ## Update the guest's lock to today's packages, and print the changes
	@tools/guest --relock

.PHONY: guest
guest: setup fetch ## Build the Debian guest in the cache (first time about 8 minutes)
	@tools/guest >/dev/null

.PHONY: setup
setup: ## Install the packages for building and testing (Debian 12 or 13, root)
	@tools/setup

# Builds need fewer packages than machines.
.PHONY: setup-tools
setup-tools:
	@tools/setup build

.PHONY: clean
clean: ## Remove build results (the cache with the guest stays)
	@rm -rf build
	@$(CARGO) clean --quiet
