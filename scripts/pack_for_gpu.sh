#!/usr/bin/env bash
# pack_for_gpu.sh FOLDER [ARCHITECTURE]: packs the build's files for the tests and benchmarks on a machine with a GPU that has no access
# to a registry: headroom, its preload libraries and plug-in, bare_onnxruntime_loop and alternating_runs from build/release with the
# libraries that they need, ONNX Runtime with its CUDA provider (only for GPUs of ARCHITECTURE, default 90, so that the total is below
# 64 MiB), and header files. On that machine, scripts/unpack_for_gpu.sh FOLDER unpacks them.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?usage: pack_for_gpu.sh FOLDER [ARCHITECTURE]}
architecture=${2:-90}
build=build/release
for file in bin/headroom bin/libheadroom_trace.so bin/libheadroom_trace_gpu.so bin/libheadroom_backend_onnxruntime.so bin/libonnxruntime.so.1 bin/bare_onnxruntime_loop bin/alternating_runs; do
  [ -e "$build/$file" ] || { echo "pack_for_gpu: $build/$file is missing: make test builds it" >&2; exit 1; }
done
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin"
cp "$build"/bin/{headroom,libheadroom_trace.so,libheadroom_trace_gpu.so,libheadroom_backend_onnxruntime.so,libonnxruntime.so.1,bare_onnxruntime_loop,alternating_runs} "$work/bin/"
strip "$work"/bin/{headroom,alternating_runs}
# The other libraries are part of every distribution.
ldd "$work/bin/headroom" | awk '$1 ~ /^lib(fmt|spdlog|dw|elf)\.so/ {print $3}' | xargs cp -Lt "$work/bin/"
scripts/pack_core_headers.sh "$work/headers" >/dev/null
tar cf - -C "$work" bin headers | xz --x86 --lzma2=preset=6,dict=64MiB >"$folder/build.tar.xz"
if ! ls "$folder"/provider.tar.xz.* >/dev/null 2>&1; then
  scripts/pack_onnxruntime_cuda.sh "$folder" 55 "$architecture"
fi
du -ch "$folder"/* | tail -n 1 >&2
