#!/usr/bin/env bash
# pack_onnxruntime_cuda.sh FOLDER [PIECE_MIB [ARCHITECTURE]]: fetches ONNX Runtime's CUDA provider for x86-64 (CUDA 13, cuDNN 9) in the
# version of the library in .deps/, and packs it into FOLDER as pieces of at most PIECE_MIB (55). They can be copied one by one to a
# machine with a GPU that has no access to a registry. scripts/join_onnxruntime_cuda.sh joins them there.
# With ARCHITECTURE (90: an H100 or H200) the code for other GPUs is removed: one piece of 38 MiB instead of 160 MiB in total.
# The package's pinned SHA-512 is verified; no code from it is run.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?usage: pack_onnxruntime_cuda.sh FOLDER [PIECE_MIB [ARCHITECTURE]]}
piece=${2:-55}
architecture=${3:-}
name=com.github.asus4.onnxruntime.linux-x64-gpu
version=0.4.9
integrity=sha512-FopIhNE/Ng+v2X65wVc9clPCBCvhvA53Hxo2U0Kf5fGdVsC7iCA+mZ0KLWggcQAj7TIZ6pNidR4AC10g74Xo6w==

mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "fetching $name $version" >&2
file=$(cd "$work" && npm pack --silent "$name@$version" | tail -n 1)
found="sha512-$(openssl dgst -sha512 -binary "$work/$file" | base64 -w0)"
if [ "$found" != "$integrity" ]; then
  echo "pack_onnxruntime_cuda: $name $version is not the pinned file: its SHA-512 is $found" >&2
  exit 1
fi
tar xzf "$work/$file" -C "$work" --strip-components=4 \
  package/Plugins/Linux/x64/libonnxruntime_providers_cuda.so package/Plugins/Linux/x64/libonnxruntime_providers_shared.so
rm "$work/$file"
[ -z "$architecture" ] || scripts/thin_cuda_code.py "$work/libonnxruntime_providers_cuda.so" "$architecture"
rm -f "$folder"/provider.*
(cd "$work" && sha256sum libonnxruntime_providers_*.so) > "$folder/provider.sha256"
echo "packing (xz)" >&2
tar cf - -C "$work" libonnxruntime_providers_cuda.so libonnxruntime_providers_shared.so |
  xz -T0 -"${XZ_LEVEL:-6}" | split -b "${piece}M" -d - "$folder/provider.tar.xz."
ls -l "$folder" >&2
