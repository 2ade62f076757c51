#!/usr/bin/env bash
# Runs clang-tidy 22 over src/ with the checks of .clang-tidy, on TEST_JOBS processes (default: all cores). Sources are batched across
# targets (scripts/lint_batches.py), because headers take most of the time. (Version 14, Debian 12's default, also analyses system
# headers and takes twice as long.) Shadowing and deprecation are left to the compilers' warnings.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f build/release/compile_commands.json ] || cmake --preset release >/dev/null
scripts/lint_batches.py build/release build/lint |
  xargs -P "${TEST_JOBS:-$(nproc)}" -n 1 clang-tidy-22 -p build/lint --quiet --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-shadow --extra-arg=-Wno-deprecated-declarations --checks=-bugprone-suspicious-include --warnings-as-errors='*' 2>&1 |
  { grep -vE '^[0-9]+ warnings? generated|^Suppressed|^Use -header-filter' || true; }
echo "clang-tidy found no problems"
