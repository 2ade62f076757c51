#!/usr/bin/env bash
# clang-tidy 22 over src/ with the checks of .clang-tidy, on TEST_JOBS processes (all cores), in batches across targets
# (scripts/lint_batches.py): most of its time is headers. (Version 14, Debian 12's usual one, looks for findings in the system's headers,
# too, and takes twice as long.) What shadows what, and what is deprecated, is told by the compilers.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f build/release/compile_commands.json ] || cmake --preset release >/dev/null
scripts/lint_batches.py build/release build/lint |
  xargs -P "${TEST_JOBS:-$(nproc)}" -n 1 clang-tidy-22 -p build/lint --quiet --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-shadow --extra-arg=-Wno-deprecated-declarations --checks=-bugprone-suspicious-include --warnings-as-errors='*' 2>&1 |
  { grep -vE '^[0-9]+ warnings? generated|^Suppressed|^Use -header-filter' || true; }
echo "clang-tidy is content"
