#!/usr/bin/env bash
# unpack_for_gpu.sh PACKED: on the machine with the GPU, unpacks the files of scripts/pack_for_gpu.sh into build/packed/bin and
# build/packed/headers. Prints the environment variables with which make test-gpu and make bench-gpu find them.
set -euo pipefail
packed=$(realpath "${1:?usage: unpack_for_gpu.sh PACKED}")
cd "$(dirname "$0")/.."
target=$PWD/build/packed
mkdir -p "$target"
tar xJf "$packed/build.tar.xz" -C "$target"
scripts/join_onnxruntime_cuda.sh "$packed" "$target/bin" >&2
echo "export HEADROOM_BIN=$target/bin HEADROOM_CORE_HEADERS=$target/headers"
# Folders with CUDA's libraries: the toolkit's, and those of Python packages.
libraries=$(python3 - <<'PY'
import glob, os, sysconfig
site = sysconfig.get_paths()["purelib"]
found = sorted({os.path.dirname(path) for path in glob.glob(f"{site}/nvidia/**/lib/*.so*", recursive=True)})
print(":".join(found + [folder for folder in ("/usr/local/cuda/lib64",) if os.path.isdir(folder)]))
PY
)
echo "export LD_LIBRARY_PATH=$target/bin${libraries:+:$libraries}\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
