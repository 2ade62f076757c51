#!/usr/bin/env bash
# clang-tidy over src/ with the checks of .clang-tidy, on TEST_JOBS processes (all cores), in batches across targets
# (scripts/lint_batches.py): most of its time is headers. What shadows what is told of each file alone, by the compilers.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f build/release/compile_commands.json ] || cmake --preset release >/dev/null
scripts/lint_batches.py build/release build/lint |
  xargs -P "${TEST_JOBS:-$(nproc)}" -n 1 clang-tidy -p build/lint --quiet --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-shadow --checks=-bugprone-suspicious-include --warnings-as-errors='*' 2>&1 |
  { grep -vE '^[0-9]+ warnings? generated|^Suppressed|^Use -header-filter' || true; }
echo "clang-tidy is content"
