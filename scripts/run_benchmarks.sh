#!/usr/bin/env bash
# Benchmarks of Headroom itself: micro-benchmarks, then the accuracy and overhead of the bench compared with a bare runtime
# loop. Results go to build/bench/; copy the final ones to benchmarks/results/ by hand, with the machine's name.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
mkdir -p build/bench
for program in "$build"/bin/*_benchmark; do
  [ -x "$program" ] || continue
  echo "== $(basename "$program") =="
  "$program" --benchmark_repetitions=7 --benchmark_report_aggregates_only=true --benchmark_out="build/bench/$(basename "$program").json" \
    --benchmark_out_format=json
done
examples=$(scripts/opencv_examples.sh)
python3 benchmarks/truth.py --build "$build" --output build/bench/truth.json \
  ".deps/models/face_detection_back_256x256_barracuda.onnx:video=$examples/data/vtest.avi" \
  ".deps/models/ch_PP-OCRv4_det_infer.onnx:video=$examples/data/vtest.avi" \
  ".deps/models/mlsd_320x320_tiny.onnx:video=$examples/data/vtest.avi"
# A turn has 36 runs, so each model takes about a minute.
while read -r model turns; do
  echo "$model: $("$build/bin/alternating_runs" ".deps/models/$model" "video=$examples/data/vtest.avi" --turns "$turns" 2>/dev/null)"
done <<'MODELS' | tee build/bench/alternating_runs.txt
face_detection_back_256x256_barracuda.onnx 300
ch_PP-OCRv4_det_infer.onnx 25
mlsd_320x320_tiny.onnx 100
MODELS
