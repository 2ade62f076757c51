#!/usr/bin/env bash
# Builds the fuzzers in the sanitizers' build and runs each for FUZZ_SECONDS (20) from its corpus. A crash is saved in
# build/asan/fuzz_runs.
# With FUZZ_SEED, runs try the same inputs in the same order and ignore earlier findings, so that a change can be judged by
# its effect. Without it, each run explores further. SANITIZE: as in `make sanitize`, which uses the same build.
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
  [ -d "$seeds" ] || seeds=$PWD/tests/fuzz/corpus/${name%%_*}  # recording_analysis starts with the corpus of recording
  echo "== $name for $seconds s =="
  # A fuzzer's progress output (hundreds of lines) is shown only if it has found something.
  (cd "$runs" && "$fuzzer" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=0 -verbosity=0 \
    -seed="${FUZZ_SEED:-0}" "$work" "$seeds") >"$runs/$name.log" 2>&1 || {
    tail -n 60 "$runs/$name.log" | cut -c1-300
    echo "the $name fuzzer found something: $runs/$name.log"
    return 255  # do not start another fuzzer
  }
}
export -f run_one
export runs seconds
printf '%s\0' "$PWD"/build/asan/fuzz/*_fuzzer | xargs -0 -P "$(nproc)" -I{} bash -c 'run_one {}' || exit 1
echo "no fuzzer found anything"
