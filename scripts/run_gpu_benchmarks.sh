#!/usr/bin/env bash
# run_gpu_benchmarks.sh OUT [STEP…]: runs the benchmarks for a machine with a GPU and writes their results into OUT. Steps with missing
# inputs are skipped; the last lines list them. Steps: metrics calls ledger trace alternating inference libtorch coexistence devices
# (default: all).
#   HEADROOM_BIN     folder with headroom, its preload libraries and plug-in, bare_onnxruntime_loop, alternating_runs and ONNX Runtime
#                    with its CUDA provider (scripts/join_onnxruntime_cuda.sh); default: build/release/bin
#   HEADROOM_MODELS  folder of models; models that PyTorch can export are written there; default: build/bench/models
#   STEP_SECONDS     time limit of a step (1800)
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
out=${1:?usage: run_gpu_benchmarks.sh OUT [STEP…]}
shift
steps=${*:-metrics calls ledger trace alternating inference libtorch coexistence devices}
bin=${HEADROOM_BIN:-build/release/bin}
models=${HEADROOM_MODELS:-build/bench/models}
limit=${STEP_SECONDS:-1800}
mkdir -p "$out"
results=() status=0

skip() { results+=("$1: skipped, $2"); }
step() {  # NAME COMMAND…
  local name=$1 begin=$SECONDS
  shift
  if timeout --kill-after=10 "$limit" "$@" >"$out/$name.log" 2>&1; then
    results+=("$name: done in $((SECONDS - begin)) s")
  else
    results+=("$name: failed with $? after $((SECONDS - begin)) s: $(tail -n 1 "$out/$name.log")")
    status=1
  fi
}
has_torch() { python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; }

if ! nvidia-smi -L >/dev/null 2>&1; then
  echo "no NVIDIA GPU found: nothing was measured"
  exit 0
fi
if ! scripts/build_for_gpu.sh gpu_benchmarks >"$out/build.log" 2>&1; then
  tail -n 20 "$out/build.log"
  exit 1
fi
tools=build/gpu/bin
tracer=$tools/libheadroom_trace.so
for name in $steps; do
  case $name in
    metrics)
      if has_torch; then step metrics benchmarks/gpu_metrics.py --build build/gpu --results "$out"; else skip metrics "python3 has no PyTorch for CUDA"; fi ;;
    calls)
      rm -f "$out/calls.hrec"
      step calls env LD_PRELOAD="$PWD/$tracer" HEADROOM_TRACE_FILE="$out/calls.hrec" HEADROOM_TRACE_OPTIONS="full=0,device=68719476736" \
        $tools/gpu_call_cost added
      rm -f "$out/calls.hrec" ;;
    ledger)
      if has_torch; then step ledger benchmarks/gpu_ledger.py --tracer $tracer --tools $tools --out "$out/ledger" --onnxruntime "$bin" --model "$models/yolox_nano_640x640.onnx"; else skip ledger "python3 has no PyTorch for CUDA"; fi ;;
    trace)
      if [ -x "$bin/headroom" ]; then
        step trace benchmarks/gpu_trace_cost.py --build "$bin" --models "$models" --out "$out" ${TRACE_FLAGS:-}
      else
        skip trace "$bin has no headroom"
      fi ;;
    alternating)
      if ! [ -x "$bin/alternating_runs" ]; then
        skip alternating "$bin has no alternating_runs"
      elif ! [ -e "$bin/libonnxruntime_providers_cuda.so" ]; then
        skip alternating "$bin has no CUDA provider of ONNX Runtime (scripts/join_onnxruntime_cuda.sh)"
      else
        step alternating benchmarks/gpu_alternating_runs.py --build "$bin" --models "$models" --out "$out"
      fi ;;
    inference)
      if ! [ -x "$bin/headroom" ]; then
        skip inference "$bin has no headroom"
      elif ! [ -e "$bin/libonnxruntime_providers_cuda.so" ]; then
        skip inference "$bin has no CUDA provider of ONNX Runtime (scripts/join_onnxruntime_cuda.sh)"
      elif ! [ -e "$models/yolox_nano_640x640.onnx" ]; then
        skip inference "$models has no yolox_nano_640x640.onnx and yolox_nano_416x416.onnx"
      else
        mkdir -p "$models"
        step inference benchmarks/gpu_inference.py --build "$bin" --models "$models" --out "$out/inference"
      fi ;;
    libtorch)
      if ! [ -x "$bin/headroom" ]; then
        skip libtorch "$bin has no headroom"
      elif ! has_torch; then
        skip libtorch "python3 has no PyTorch for CUDA"
      else
        step libtorch benchmarks/gpu_libtorch.sh "$bin" "$out/libtorch" ${LIBTORCH_FLAGS:-}
      fi ;;
    coexistence)
      if [ -x "$bin/headroom" ]; then step coexistence benchmarks/gpu_coexistence.sh "$bin" $tools "$out/coexistence"; else skip coexistence "$bin has no headroom"; fi ;;
    devices)
      if ! [ -x "$bin/headroom" ]; then
        skip devices "$bin has no headroom"
      elif [ "$(nvidia-smi -L | wc -l)" -lt 2 ]; then
        skip devices "it needs two GPUs"
      else
        step devices benchmarks/gpu_two_devices.py --headroom "$bin/headroom" --out "$out/devices"
      fi ;;
    *) echo "run_gpu_benchmarks: unknown step: $name" >&2; exit 2 ;;
  esac
done
printf '%s\n' "${results[@]}" | tee "$out/steps.txt"
exit $status
