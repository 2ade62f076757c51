#!/usr/bin/env bash
# gpu_libtorch.sh BIN OUT [FLAG…]: builds the LibTorch plug-in with the LibTorch of this python3 (it works with one version only), and
# measures headroom bench with it: benchmarks/gpu_libtorch.py FLAG…. BIN has headroom.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${1:?usage: gpu_libtorch.sh BIN OUT [FLAG…]}
out=${2:?usage: gpu_libtorch.sh BIN OUT [FLAG…]}
shift 2
torch=$(python3 -c 'import torch; print(torch.__path__[0])')
HEADROOM_LIBTORCH_DIR=$torch scripts/build_for_gpu.sh headroom_backend_libtorch
export HEADROOM_BACKEND_PATH=$PWD/build/gpu/bin LD_LIBRARY_PATH=$torch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
benchmarks/gpu_libtorch.py --build "$bin" --out "$out" "$@"
