#!/usr/bin/env bash
# join_onnxruntime_cuda.sh PIECES FOLDER: joins the pieces made by scripts/pack_onnxruntime_cuda.sh, and unpacks the CUDA
# provider into FOLDER, next to the libonnxruntime.so.1 that will load it.
set -euo pipefail
pieces=${1:?usage: join_onnxruntime_cuda.sh PIECES FOLDER}
folder=${2:?usage: join_onnxruntime_cuda.sh PIECES FOLDER}
mkdir -p "$folder"
cat "$pieces"/provider.tar.xz.* | tar xJf - -C "$folder"
sums=$(realpath "$pieces/provider.sha256")
(cd "$folder" && sha256sum --quiet -c "$sums")
echo "the CUDA provider is in $folder"
