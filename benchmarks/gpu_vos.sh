#!/usr/bin/env bash
# gpu_vos.sh BIN OUT [FLAG…]: builds the LibTorch plug-in with the LibTorch of this python3, and compares headroom bench --task vos with
# the Python predictor on a GPU: benchmarks/gpu_vos.py FLAG…. BIN has headroom and libheadroom_media_pictures.so with its libraries. Ends
# within 5 minutes. Needs torch, transformers 5, timm, Pillow; no network. With LIBTORCH_PLUGIN=FOLDER nothing is built.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
bin=$(realpath "${1:?usage: gpu_vos.sh BIN OUT [FLAG…]}")
mkdir -p "${2:?usage: gpu_vos.sh BIN OUT [FLAG…]}"
out=$(realpath "$2")
shift 2
export PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
torch=$(python3 -c 'import importlib.util; print(importlib.util.find_spec("torch").submodule_search_locations[0])')
plugin=${LIBTORCH_PLUGIN:-$PWD/build/gpu/bin}
status=$out/plugin.status
rm -f "$status"
if [ -n "${LIBTORCH_PLUGIN:-}" ]; then
  echo 0 >"$status"
else
  (
    HEADROOM_LIBTORCH_DIR=$torch scripts/build_for_gpu.sh headroom_backend_libtorch >"$out/plugin.log" 2>&1
    echo $? >"$status.new" && mv "$status.new" "$status"
  ) &
fi
[ -n "${LIBTORCH_PLUGIN:-}" ] || export LD_LIBRARY_PATH=$torch/lib:$bin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
python3 benchmarks/gpu_vos.py --build "$bin" --plugin "$plugin" --plugin-status "$status" --out "$out" "$@" 2>&1 | tee "$out/gpu_vos.log"
code=${PIPESTATUS[0]}
rm -rf "$out/runs"
cat "$out/gpu_vos.md"
exit "$code"
