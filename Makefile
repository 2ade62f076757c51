# What people type. `make demo` and `make test` do all the set-up on a fresh Debian 12 machine.
.DEFAULT_GOAL := help
JOBS ?= $(shell nproc)
BUILD := build/release
space := $(subst ,, )
PRESET ?= release
PREFIX ?= /usr/local
ARCHITECTURE ?= x86_64
ARCHITECTURES ?= x86_64 aarch64
LAUNCHER := $(if $(shell command -v ccache),-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache,)
# A clone in another folder uses the same cached objects.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
export CCACHE_SLOPPINESS := pch_defines,time_macros

.PHONY: help deps deps-test build install demo test test-gpu bench-gpu bench bench-recorder hostile format lint sanitize tsan fuzz cross portable package test-packages clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## *' '{printf "make %-10s %s\n", $$1, $$2}'

deps:  ## install what a build needs (Debian packages, pinned; npm packages, by checksum)
	@scripts/install_dependencies.sh build

deps-test:  ## install what the tests and checks need besides
	@scripts/install_dependencies.sh test

build: deps  ## build/release/bin/headroom
	@cmake --preset $(PRESET) $(LAUNCHER) -DHEADROOM_TESTS=OFF -DHEADROOM_BENCHMARKS=OFF
	@cmake --build --preset release --parallel $(JOBS)

install: build  ## into PREFIX (/usr/local), which may be moved later; DESTDIR=DIR puts the tree below DIR
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD) --prefix $(PREFIX)

demo: build  ## the main job on real pictures and a video; prints where the report is
	@scripts/demo.sh

test: deps-test  ## build everything and pass the tests
	@cmake --preset $(PRESET) $(LAUNCHER) -DHEADROOM_TESTS=ON -DHEADROOM_BENCHMARKS=ON
	@cmake --build --preset release --parallel $(JOBS)
	@scripts/run_tests.sh $(BUILD)

test-gpu:  ## on a machine with a GPU: build what the tests labelled gpu need (g++ 12, cmake) and pass them
	@CMAKE_LAUNCHER="$(LAUNCHER)" JOBS=$(JOBS) scripts/run_gpu_tests.sh

bench-gpu:  ## on a machine with a GPU: ledger, cost of tracing, inference, other tools (benchmarks/README.md); results go to build/bench/gpu/
	@CMAKE_LAUNCHER="$(LAUNCHER)" JOBS=$(JOBS) scripts/run_gpu_benchmarks.sh build/bench/gpu

bench: deps-test  ## benchmarks of Headroom itself (benchmarks/README.md)
	@cmake --preset $(PRESET) $(LAUNCHER) -DHEADROOM_TESTS=ON -DHEADROOM_BENCHMARKS=ON
	@cmake --build --preset release --parallel $(JOBS)
	@scripts/run_benchmarks.sh $(BUILD)

hostile: build  ## all hostile files for each reader (docs/damaged-files.md); some minutes
	@tests/cli/test_hostile_inputs.py $(BUILD)/bin/headroom --all --jobs $(JOBS)

bench-recorder: deps-test  ## cost of recordings, their reading and the end of a trace, next to heaptrack's; results go to build/bench/recorder.md
	@cmake --preset $(PRESET) $(LAUNCHER) -DHEADROOM_TESTS=ON -DHEADROOM_BENCHMARKS=ON
	@cmake --build --preset release --parallel $(JOBS) --target headroom headroom_trace trace_storm trace_storm_without_fp message_node
	@benchmarks/recorder.py --build $(BUILD) --output build/bench/recorder.md $(RECORDER)

format:  ## clang-format all sources in place
	@git ls-files '*.cpp' '*.h' | xargs clang-format -i

lint: deps-test  ## formatting, layering, local paths, language, clang-tidy
	@scripts/check_format.sh
	@scripts/check_layering.py
	@scripts/check_no_local_paths.sh
	@scripts/check_language.py
	@scripts/run_clang_tidy.sh

sanitize: deps-test  ## the tests under AddressSanitizer and UBSan (SANITIZE=-DHEADROOM_COMMAND_TESTS=OFF: without those of the command line)
	@cmake --preset asan $(LAUNCHER) $(SANITIZE)
	@cmake --build --preset asan --parallel $(JOBS)
	@scripts/run_tests.sh build/asan

tsan: deps-test  ## the recorder under ThreadSanitizer
	@CMAKE_LAUNCHER="$(LAUNCHER)" JOBS=$(JOBS) scripts/run_tsan.sh

fuzz: deps-test  ## every fuzzer for FUZZ_SECONDS (20)
	@CMAKE_LAUNCHER="$(LAUNCHER)" scripts/run_fuzzers.sh

cross: deps-test  ## the modules without foreign libraries for aarch64; runs their tests under qemu-user (CROSS_TESTS="base_test …": those alone)
	@cmake --preset aarch64 $(LAUNCHER)
	@cmake --build --preset aarch64 --parallel $(JOBS) $(if $(CROSS_TESTS),--target $(CROSS_TESTS))
	@scripts/run_tests.sh build/aarch64 $(if $(CROSS_TESTS),-R '^($(subst $(space),|,$(strip $(CROSS_TESTS)))) ')

portable:  ## build/portable-ARCHITECTURE/bin: for Debian 11 and later and JetPack 4 to 7; ARCHITECTURE=aarch64 for a Jetson
	$(if $(filter x86_64 aarch64,$(ARCHITECTURE)),,$(error unknown architecture '$(ARCHITECTURE)': use ARCHITECTURE=x86_64 or ARCHITECTURE=aarch64))
	@scripts/install_dependencies.sh portable
	@scripts/fetch_portable_sysroot.sh $(ARCHITECTURE)
	@cmake --preset portable-$(ARCHITECTURE) $(LAUNCHER)
	@cmake --build build/portable-$(ARCHITECTURE) --parallel $(JOBS)

package:  ## build/packages: .deb, .tar.xz and wheel of both architectures, source archive; ARCHITECTURES=x86_64: of that alone
	@for architecture in $(ARCHITECTURES); do $(MAKE) --no-print-directory portable ARCHITECTURE=$$architecture || exit 1; done
	@scripts/make_packages.py $(ARCHITECTURES)

test-packages:  ## install and use the packages in minimal Debian 11, 12 and 13 (as root; arm64 under qemu-user); PACKAGES=amd64: these alone
	@scripts/install_dependencies.sh packages
	@scripts/test_packages.sh $(or $(PACKAGES),all)

clean:  ## remove builds (not the fetched packages)
	@rm -rf build web/dist
