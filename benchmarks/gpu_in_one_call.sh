#!/usr/bin/env bash
# gpu_in_one_call.sh OUT PACKED: for a machine with a GPU that is available for minutes only. Runs the tests labelled gpu, and then the
# missing measurements, the most important first. PACKED is the folder filled by scripts/pack_for_gpu.sh. Each step has a time limit,
# and no step starts that could not end in time. After each step, OUT has all results so far in the form of benchmarks/results/, and
# results.tar.gz with the logs.
#   TOTAL_SECONDS  time for everything (540)
#   STEPS          the steps, in order: tests alternating torch onnxruntime small report bound (all)
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
out=${1:?usage: gpu_in_one_call.sh OUT PACKED}
packed=${2:?usage: gpu_in_one_call.sh OUT PACKED}
total=${TOTAL_SECONDS:-540}
steps=${STEPS:-tests alternating torch onnxruntime small report bound}
here=$PWD/build/one_call
models=$here/models
least=20  # a step that would get fewer seconds is skipped
mkdir -p "$out" "$models" || exit 1
out=$(realpath "$out")
export PYTHONUNBUFFERED=1
status=0

report() { echo "$*" | tee -a "$here/steps.txt"; }
keep() {  # atomically: an interruption leaves the previous archive
  cp "$here"/gpu_*.json "$here"/gpu_*.md "$here"/only_gpu_report.txt "$here/steps.txt" "$out/" 2>/dev/null
  tar czf "$here.tar.gz" -C "$here" --exclude=models --exclude='*.hrec' . && mv "$here.tar.gz" "$out/results.tar.gz"
}
step() {  # NAME SECONDS COMMAND…: runs the command for at most this many seconds
  local name=$1 limit=$2 begin=$SECONDS left=$((total - SECONDS)) code=0
  shift 2
  if [ "$left" -lt "$least" ]; then
    report "$name: skipped, only $left s remain"
    return
  fi
  [ "$limit" -le "$left" ] || limit=$left
  timeout --kill-after=5 "$limit" "$@" >"$here/$name.log" 2>&1 || code=$?
  if [ $code -eq 0 ]; then
    report "$name: done in $((SECONDS - begin)) s"
  else
    report "$name: ended with $code after $((SECONDS - begin)) s of $limit: $(grep . "$here/$name.log" | tail -n 1 | cut -c1-300)"
    status=1
  fi
  keep
}

rm -f "$here"/steps.txt
if ! nvidia-smi -L; then
  echo "no NVIDIA GPU found: nothing was measured"
  exit 0
fi

# Prepare in parallel: the build starts as soon as the header files are unpacked.
python3 -c 'import pathlib, sys; sys.path.insert(0, "bench"); import gpu_inference
gpu_inference.export(pathlib.Path(sys.argv[1]), gpu_inference.EXPORTED)' "$models" >"$here/export.log" 2>&1 &
exporting=$!
settings=$(scripts/unpack_for_gpu.sh "$packed" 2>"$here/unpack.log") || { tail -n 5 "$here/unpack.log"; exit 1; }
eval "$settings"
bin=$HEADROOM_BIN
scripts/build_for_gpu.sh gpu_tests >"$here/build.log" 2>&1 || report "build: failed: $(tail -n 1 "$here/build.log")"
wait $exporting || report "models: failed: $(tail -n 1 "$here/export.log")"
report "ready after $SECONDS s"
keep

# On one processor: the difference between two processors would be larger than the measured effect.
trace_cost() {  # NAME SECONDS PROGRAM [FLAG…]: starting and ending the processes takes about 30 s in addition to the measurement
  local name=$1 seconds=$2 program=$3 left=$((total - SECONDS))
  shift 3
  [ "$seconds" -le "$left" ] || seconds=$left
  step "$name" "$seconds" benchmarks/gpu_trace_cost.py --build "$bin" --models "$models" --out "$here" --only "$program" --processors 1 --turns 8 \
    --slice 0.06 --pairs 200 --budget $((seconds - 30)) "$@"
}
only_gpu_report() {
  "$bin/headroom" trace --only gpu --gpu-mem-limit 4GiB --force --out "$here/only_gpu.hrec" -- python3 benchmarks/gpu_torch_program.py limit &&
    "$bin/headroom" report "$here/only_gpu.hrec" >"$here/only_gpu_report.txt" &&
    "$bin/headroom" report "$here/only_gpu.hrec" --json >"$here/only_gpu_report.json"
}
export -f only_gpu_report
export bin here

for name in $steps; do
  case $name in
    tests) step tests 100 scripts/run_tests.sh build/gpu -L gpu ;;
    alternating) step alternating 100 benchmarks/gpu_alternating_runs.py --build "$bin" --models "$models" --out "$here" --processes 2 \
      --model resnet50 --model mobilenet_v2 ;;
    torch) trace_cost torch 150 pytorch --at-once 8 --model resnet50_b1 ;;
    onnxruntime) trace_cost onnxruntime 110 onnxruntime --at-once 12 --model resnet50 ;;
    small) trace_cost small 70 onnxruntime --at-once 12 --model mobilenet_v2 ;;
    report) step report 40 bash -c only_gpu_report ;;
    bound) trace_cost bound 90 pytorch --at-once 6 --model resnet50_b32 --model vit_b_16_b8 --model transformer_b4 ;;
    *) report "gpu_in_one_call: unknown step: $name"; status=2 ;;
  esac
done
cat "$here"/gpu_*.md "$here"/only_gpu_report.txt 2>/dev/null
tail -n 3 "$here/tests.log" 2>/dev/null
cat "$here/steps.txt"
exit $status
