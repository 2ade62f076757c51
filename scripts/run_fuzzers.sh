#!/usr/bin/env bash
# Builds the fuzzers in the sanitizers' build and runs each for FUZZ_SECONDS (20) from its corpus. A crash is left in
# build/asan/fuzz_runs.
# FUZZ_SEED makes runs try the same inputs in the same order, and begins without what earlier ones found: a change is
# judged by what it changed. Without it each run looks further. SANITIZE: as of `make sanitize`, whose build it is.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-20}
cmake --preset asan ${CMAKE_LAUNCHER:-} ${SANITIZE:-} >/dev/null
cmake --build --preset asan --target fuzzers --parallel "$(nproc)"
runs=$PWD/build/asan/fuzz_runs
run_one() {
  local fuzzer=$1 name work seeds
  name=$(basename "$fuzzer" _fuzzer)
  work=$runs/$name
  [ -z "${FUZZ_SEED:-}" ] || rm -rf "$work"
  mkdir -p "$work"
  seeds=$PWD/tests/fuzz/corpus/$name
  [ -d "$seeds" ] || seeds=$PWD/tests/fuzz/corpus/${name%%_*}  # recording_analysis begins with the recordings of recording
  echo "== $name for $seconds s =="
  # What a fuzzer says of its progress (hundreds of lines) is of use only when it has found something.
  (cd "$runs" && "$fuzzer" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=0 -verbosity=0 \
    -seed="${FUZZ_SEED:-0}" "$work" "$seeds") >"$runs/$name.log" 2>&1 || {
    tail -n 60 "$runs/$name.log" | cut -c1-300
    echo "the $name fuzzer found something: $runs/$name.log"
    return 255  # no other begins
  }
}
export -f run_one
export runs seconds
printf '%s\0' "$PWD"/build/asan/fuzz/*_fuzzer | xargs -0 -P "$(nproc)" -I{} bash -c 'run_one {}' || exit 1
echo "no fuzzer found anything"
