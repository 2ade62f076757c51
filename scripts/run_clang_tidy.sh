#!/usr/bin/env bash
# clang-tidy over src/ with the checks of .clang-tidy, on TEST_JOBS processes (all cores). Files that the build leaves out
# (a plug-in without its runtime's headers here) cannot be read, nor can those with LibTorch's headers: clang 14 does not take
# them in C++20 with libstdc++ 12.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f build/release/compile_commands.json ] || cmake --preset release >/dev/null
built=$(python3 -c '
import json, os
print("\n".join({os.path.relpath(entry["file"]) for entry in json.load(open("build/release/compile_commands.json"))}))')
git ls-files 'src/*.cpp' | grep -Fxf <(echo "$built") | grep -vE '^src/inference/libtorch/(module|session|signature)\.cpp$' |
  xargs -P "${TEST_JOBS:-$(nproc)}" -n 4 clang-tidy -p build/release --quiet --extra-arg=-Wno-unknown-warning-option --warnings-as-errors='*' 2>&1 |
  { grep -vE '^[0-9]+ warnings? generated|^Suppressed|^Use -header-filter' || true; }
echo "clang-tidy is content"
