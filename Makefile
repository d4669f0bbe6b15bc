# The one front door. Each target installs what it is missing, builds, and runs;
# what is already there is left alone. CMake does the work (CMakePresets.json).

PREFIX ?= /usr/local
# How long each fuzzer runs in make fuzz and make soak.
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 600
# What heraldd keeps events on in make bench-server: rocksdb or etcd.
STORE ?= rocksdb
# What make test runs; the rest needs Go, a long time, or a quiet machine.
TEST_LABELS ?= unit|conformance|integration|install|fuzz

.DEFAULT_GOAL := help
# Targets share the build folders, so they run one after the other.
.NOTPARALLEL:
.PHONY: help run test build bench bench-server bench-cluster lint format fuzz interop goldens install package soak clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

run: ## serve events from .herald/ on port PORT (6443), with a demo node that records some
	@tools/install-deps build run
	@tools/build release heraldd node_agent
	@tools/run build/release

test: ## build and run the unit, conformance, integration, install and fuzz-replay tests; with AGAIN=1 even if nothing changed
	@tools/install-deps build test
	@tools/build dev
	@AGAIN='$(AGAIN)' tools/test '$(TEST_LABELS)'

build: ## build the release into build/release
	@tools/install-deps build
	@tools/build release

bench: ## measure against client-go in the same run; needs Go for the other side
	@tools/install-deps build bench
	@tools/build release -DHERALD_BENCHMARKS=ON benchmarks
	@tools/bench build/release

bench-server: ## measure heraldd on STORE (rocksdb) against kube-apiserver with etcd; needs Go
	@tools/install-deps build bench
	@tools/build release -DHERALD_BENCHMARKS=ON heraldd load
	@tools/bench-server build/release --store '$(STORE)'

bench-cluster: ## 5,000 simulated nodes with 30 pods each against heraldd, with an event storm
	@tools/install-deps build bench
	@tools/build release -DHERALD_BENCHMARKS=ON heraldd cluster
	@tools/bench-cluster build/release

lint: ## clang's thread-safety analysis, clang-format, clang-tidy, layers, shell syntax
	@tools/install-deps build test bench lint
	@tools/lint

format: ## rewrite the sources as clang-format wants them
	@tools/install-deps lint
	@tools/lint --fix-format

fuzz: ## run each fuzzer for FUZZ_SECONDS (60)
	@tools/install-deps build fuzz
	@tools/build fuzz
	@tools/fuzz $(FUZZ_SECONDS)

interop: ## compare with the real Kubernetes libraries and a real kube-apiserver, and run h2spec; needs Go
	@tools/install-deps interop
	@test/interop/run check
	@tools/install-deps build test
	@tools/build dev client_cluster_test replicaset_controller heraldd etcd_store_test
	@test/interop/run with build/dev/test/client_cluster_test
	@test/interop/run controller build/dev/bin/replicaset_controller
	@test/interop/run heraldd build/dev/bin/heraldd
	@test/interop/run h2spec build/dev/bin/heraldd
	@test/interop/run one-etcd build/dev/bin/heraldd
	@test/interop/run etcd build/dev/test/etcd_store_test
	@test/interop/run etcd test/heraldd/faults build/dev/faults build/dev/bin/heraldd

goldens: ## write the golden vectors and kube-apiserver's answers anew; needs Go
	@tools/install-deps interop
	@test/interop/run goldens
	@test/interop/run api record

install: ## install the release below PREFIX (/usr/local); honours DESTDIR
	@tools/install-deps build
	@tools/build release
	@cmake --install build/release --prefix '$(PREFIX)'

package: ## make the packages heraldd and libherald-dev for Debian, and a .tar.gz of all, in build/package
	@tools/install-deps build package
	@tools/build release
	@cpack --config build/release/CPackConfig.cmake -B build/package

soak: ## the long versions: 200 kills of the store and of heraldd, 10,000 bad clients, the client and two heraldd on etcd in 5 minutes of faults each, 100,000 events that expire in etcd, each fuzzer for SOAK_SECONDS (600)
	@tools/install-deps build test interop
	@tools/build dev
	@HERALD_SOAK=1 ctest --preset dev -R 'crash_test|bad_clients|hostile'
	@HERALD_SOAK=1 test/interop/run with build/dev/test/client_cluster_test --gtest_filter='*ScheduleOfFaults' || \
	  { [ $$? -eq 3 ] && echo 'make soak: without Go there is no kube-apiserver; the client was not tried against one' >&2; }
	@HERALD_SOAK=1 test/interop/run etcd test/heraldd/faults build/dev/faults build/dev/bin/heraldd || \
	  { [ $$? -eq 3 ] && echo 'make soak: without Go there is no current etcd; heraldd was not tried on one' >&2; }
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=$(SOAK_SECONDS)
	@test/interop/run etcd test/heraldd/expiry build/dev/expiry build/dev/bin/heraldd || [ $$? -eq 3 ]

clean: ## remove build/
	rm -rf build
