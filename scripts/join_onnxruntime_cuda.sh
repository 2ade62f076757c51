#!/usr/bin/env bash
# join_onnxruntime_cuda.sh PIECES FOLDER: puts the pieces of scripts/pack_onnxruntime_cuda.sh together and unpacks the CUDA
# provider into FOLDER, beside the libonnxruntime.so.1 that is to use it.
set -euo pipefail
pieces=${1:?usage: join_onnxruntime_cuda.sh PIECES FOLDER}
folder=${2:?usage: join_onnxruntime_cuda.sh PIECES FOLDER}
mkdir -p "$folder"
cat "$pieces"/provider.tar.xz.* | tar xJf - -C "$folder"
sums=$(realpath "$pieces/provider.sha256")
(cd "$folder" && sha256sum --quiet -c "$sums")
echo "the CUDA provider is in $folder"
