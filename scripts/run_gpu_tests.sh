#!/usr/bin/env bash
# Builds the tests labelled gpu (scripts/build_for_gpu.sh) and runs them. Without a GPU every test
# is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build_for_gpu.sh gpu_tests
log=$(mktemp)
status=0
scripts/run_tests.sh build/gpu -L gpu | tee "$log" || status=$?
if grep -qE '^0 passed, 0 failed, [1-9][0-9]* skipped$' "$log"; then
  echo "no GPU found: every test was skipped"
  status=0
fi
rm -f "$log"
exit $status
