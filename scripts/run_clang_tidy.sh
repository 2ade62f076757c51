#!/usr/bin/env bash
# Runs clang-tidy 22 over src/ with the checks of .clang-tidy, on TEST_JOBS processes (default: all cores). It reads the batches of the
# release build, because headers take most of the time. Left out: sources with LibTorch's headers, which clang 22 rejects in C++20 with
# libstdc++ 12. (Version 14, Debian 12's default, also analyses system headers and takes twice as long.) Shadowing and deprecation are
# left to the compilers' warnings.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f build/release/compile_commands.json ] || cmake --preset release >/dev/null
python3 - build/release/compile_commands.json build/lint <<'PY' |
import json, os, pathlib, re, sys
NO_CLANG = re.compile(r"headroom_backend_libtorch|headroom_memory_tracer")
entries, size = [], {}
for entry in json.loads(pathlib.Path(sys.argv[1]).read_text()):
    file = entry["file"]
    object_file = re.search(r" -o (\S+)", entry["command"])[1]
    sources = re.findall(r'#include "(/[^"]+)"', open(file).read()) if "/Unity/" in file else [file]
    if not object_file.startswith("src/") or NO_CLANG.search(object_file) or not sources[0].startswith(os.getcwd() + "/src/"):
        continue
    entry["command"] = re.sub(r"--param=\S+|-Winvalid-pch -include \S+", "", entry["command"])  # g++'s own
    entries.append(entry)
    size[file] = sum(os.path.getsize(source) for source in sources)
# A batch lies in the build folder; clang-tidy looks for settings beside it.
for settings in pathlib.Path("src").rglob(".clang-tidy"):
    beside = pathlib.Path("build/release") / settings
    beside.parent.mkdir(parents=True, exist_ok=True)
    beside.write_text(settings.read_text())
folder = pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
(folder / "compile_commands.json").write_text(json.dumps(entries))
print(*sorted(size, key=size.get, reverse=True), sep="\n")  # largest first, so that no process works alone at the end
PY
  xargs -P "${TEST_JOBS:-$(nproc)}" -n 1 clang-tidy-22 -p build/lint --quiet --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-shadow \
    --extra-arg=-Wno-deprecated-declarations --checks=-bugprone-suspicious-include --warnings-as-errors='*' 2>&1 |
  { grep -vE '^[0-9]+ warnings? generated|^Suppressed|^Use -header-filter' || true; }
echo "clang-tidy found no problems"
