# The entry point. Each target installs what is missing, builds, and runs. CMake does the work
# (CMakePresets.json).

PREFIX ?= /usr/local
# How long each fuzzer runs in make fuzz and make soak.
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 600
# The store of heraldd in make bench-server: rocksdb or etcd.
STORE ?= rocksdb
# The tests of make test. The others need Go, a long time, or an idle machine.
TEST_LABELS ?= unit|conformance|integration|install|fuzz

.DEFAULT_GOAL := help
# Targets share the build folders, so they run one at a time.
.NOTPARALLEL:
.PHONY: help run test build bench bench-server bench-cluster lint format fuzz interop interop-all goldens install package soak clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

run: ## run the event server on port PORT (6443) with its data in .herald/, and a demo node that records events
	@tools/install-deps build run
	@tools/build release heraldd node_agent
	@tools/run build/release

test: ## build and run the unit, conformance, integration, install and fuzz-replay tests; AGAIN=1 runs them even if nothing changed
	@tools/install-deps build test
	@tools/build dev
	@AGAIN='$(AGAIN)' tools/test '$(TEST_LABELS)'

build: ## build the release into build/release
	@tools/install-deps build
	@tools/build release

bench: ## measure the library against client-go in the same run; needs Go
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

format: ## format the sources with clang-format
	@tools/install-deps lint
	@tools/lint --fix-format

fuzz: ## run each fuzzer for FUZZ_SECONDS (60)
	@tools/install-deps build fuzz
	@tools/build fuzz
	@tools/fuzz $(FUZZ_SECONDS)

interop: ## compare with the real Kubernetes libraries and a real kube-apiserver, run h2spec; needs Go
	@tools/install-deps interop
	@test/interop/run check
	@tools/install-deps build test
	@tools/build dev client_cluster_test replicaset_controller heraldd etcd_store_test
	@test/interop/run with build/dev/test/client_cluster_test
	@test/interop/run controller build/dev/bin/replicaset_controller
	@test/interop/run heraldd build/dev/bin/heraldd
	@test/interop/run h2spec build/dev/bin/heraldd
	@test/interop/run one-etcd build/dev/bin/heraldd

interop-all: interop ## interop, and what takes many minutes: the store suite and faults on the current etcd
	@test/interop/run etcd build/dev/test/etcd_store_test
	@test/interop/run etcd test/heraldd/faults build/dev/faults build/dev/bin/heraldd

goldens: ## regenerate the golden vectors and the recorded responses of kube-apiserver; needs Go
	@tools/install-deps interop
	@test/interop/run goldens
	@test/interop/run api record

install: ## install the release below PREFIX (/usr/local); DESTDIR is respected
	@tools/install-deps build
	@tools/build release
	@cmake --install build/release --prefix '$(PREFIX)'

package: ## build the Debian packages heraldd and libherald-dev and a .tar.gz in build/package
	@tools/install-deps build package
	@tools/build release
	@cpack --config build/release/CPackConfig.cmake -B build/package

soak: ## long tests: 200 kills of the store and of heraldd, 10,000 bad clients, 5 minutes of faults for the client and for heraldd on etcd, 100,000 events that expire on etcd, each fuzzer for SOAK_SECONDS (600)
	@tools/install-deps build test interop
	@tools/build dev
	@HERALD_SOAK=1 ctest --preset dev -R 'crash_test|bad_clients|hostile'
	@HERALD_SOAK=1 test/interop/run with build/dev/test/client_cluster_test --gtest_filter='*ScheduleOfFaults' || \
	  { [ $$? -eq 3 ] && echo 'make soak: no Go, so the client was not tested against a kube-apiserver' >&2; }
	@HERALD_SOAK=1 test/interop/run etcd test/heraldd/faults build/dev/faults build/dev/bin/heraldd || \
	  { [ $$? -eq 3 ] && echo 'make soak: no Go, so heraldd was not tested on a current etcd' >&2; }
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=$(SOAK_SECONDS)
	@test/interop/run etcd test/heraldd/expiry build/dev/expiry build/dev/bin/heraldd || [ $$? -eq 3 ]

clean: ## delete build/
	rm -rf build
