#!/usr/bin/env bash
# Builds the fuzzers with clang and runs each for FUZZ_SECONDS (20) from its corpus. A crash is left in build/fuzz.
# FUZZ_SEED makes runs try the same inputs in the same order, and begins without what earlier ones found: a change is
# judged by what it changed. Without it each run looks further.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-20}
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target fuzzers --parallel "$(nproc)"
for fuzzer in build/fuzz/fuzz/*_fuzzer; do
  name=$(basename "$fuzzer" _fuzzer)
  work=build/fuzz/corpus/$name
  [ -z "${FUZZ_SEED:-}" ] || rm -rf "$work"
  mkdir -p "$work"
  seeds=tests/fuzz/corpus/$name
  [ -d "$seeds" ] || seeds=tests/fuzz/corpus/${name%%_*}  # recording_analysis begins with the recordings of recording
  echo "== $name for $seconds s =="
  (cd build/fuzz && "../../$fuzzer" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=0 -verbosity=0 \
    -seed="${FUZZ_SEED:-0}" \
    "../../$work" "../../$seeds")
done
echo "no fuzzer found anything"
