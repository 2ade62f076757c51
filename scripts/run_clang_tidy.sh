#!/usr/bin/env bash
# clang-tidy over src/ with the checks of .clang-tidy, on TEST_JOBS processes (all cores), in the batches in which the release
# build compiles (scripts/unity_batches.py): the headers of a batch are read once. Files that the build leaves out
# (a plug-in without its runtime's headers here) cannot be read, nor can those with LibTorch's headers: clang 14 does not take
# them in C++20 with libstdc++ 12.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f build/release/compile_commands.json ] || cmake --preset release >/dev/null
python3 - <<'PY' |
import json
import os
import re
LIBTORCH = re.compile(r"/src/inference/libtorch/(module|session|signature)\.cpp$")
for entry in json.load(open("build/release/compile_commands.json")):
    batch = entry["file"]
    sources = re.findall(r'#include "(/[^"]+\.cpp)"', open(batch).read()) if "/build/release/unity/" in batch else [batch]
    if not all(os.path.relpath(source).startswith("src/") for source in sources):
        continue
    readable = [source for source in sources if not LIBTORCH.search(source)]
    print(*([batch] if readable == sources else readable), sep="\n")  # flags of a single one: as those of its neighbours
PY
  sort -u | grep . | xargs -P "${TEST_JOBS:-$(nproc)}" -n 1 clang-tidy -p build/release --quiet --extra-arg=-Wno-unknown-warning-option --checks=-bugprone-suspicious-include --warnings-as-errors='*' 2>&1 |
  { grep -vE '^[0-9]+ warnings? generated|^Suppressed|^Use -header-filter' || true; }
echo "clang-tidy is content"
