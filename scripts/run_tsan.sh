#!/usr/bin/env bash
# Runs the recorder under ThreadSanitizer: threads that record, name scopes, end and are replaced, all at once. The malloc hooks cannot run
# in a process whose malloc is the sanitizer's, but everything behind them does. Also runs the GPU driver hooks in front of the fake
# driver, the ledger of GPU memory, the model pool, the analysis of recordings, and the memory tracer if LibTorch is installed (threads
# pass tensors to each other).
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset tsan ${CMAKE_LAUNCHER:-} -DHEADROOM_BENCHMARKS=OFF >/dev/null
programs=(preload_core_test device_hooks_test ledger_test pool_test attribution_test)
! ninja -C build/tsan -t query memory_tracer_test >/dev/null 2>&1 || programs+=(memory_tracer_test)
cmake --build build/tsan --target "${programs[@]}" --parallel "${JOBS:-$(nproc)}"
# One process for all tests, because the recorder has one recording per process. A race ends the
# process with 66.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
for program in "${programs[@]}"; do
  TSAN_OPTIONS=halt_on_error=0 build/tsan/tests/$program | tee -a "$log" || status=$?
done
passed=$(grep -c '^\[       OK \]' "$log" || true)
failed=$(grep -c '^\[  FAILED  \].*(.* ms)$' "$log" || true)
if [ "$status" != 0 ] && [ "$failed" = 0 ]; then failed=1; fi
echo "$passed passed, $failed failed"
[ "$status" = 0 ] && [ "$passed" -gt 0 ]
