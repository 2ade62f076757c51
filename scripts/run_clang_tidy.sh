#!/usr/bin/env bash
# clang-tidy over src/ with the checks of .clang-tidy, on TEST_JOBS processes (all cores).
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f build/release/compile_commands.json ] || cmake --preset release >/dev/null
git ls-files 'src/*.cpp' | xargs -P "${TEST_JOBS:-$(nproc)}" -n 4 clang-tidy -p build/release --quiet --extra-arg=-Wno-unknown-warning-option --warnings-as-errors='*' 2>&1 |
  { grep -vE '^[0-9]+ warnings? generated|^Suppressed|^Use -header-filter' || true; }
echo "clang-tidy is content"
