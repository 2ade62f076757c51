#!/usr/bin/env bash
# Benchmarks detectors of text, faces and lines (models from npm) on photos and a video of Debian's opencv-doc, under an
# enforced memory limit, and follows objects through made clips. Each benchmark prints the path of its report.
set -euo pipefail
cd "$(dirname "$0")/.."

headroom=build/release/bin/headroom
photos=build/demo/photos
examples=$(scripts/opencv_examples.sh)

mkdir -p "$photos"
for picture in data/messi5.jpg text/scenetext01.jpg text/scenetext02.jpg data/building.jpg; do
  [ -f "$examples/$picture" ] && cp -u "$examples/$picture" "$photos/"
done

echo "== photos: detect text, faces and lines under a limit of 512 MiB =="
"$headroom" bench --source image_dir="$photos" --mem-limit 512MiB --max-frames 100 --sample-images 4 \
  --prepared-dir build/demo/prepared-photos \
  --model text=.deps/models/ch_PP-OCRv4_det_infer.onnx \
  --model face=.deps/models/face_detection_back_256x256_barracuda.onnx \
  --model lines=.deps/models/mlsd_320x320_tiny.onnx

echo
echo "== video vtest.avi: the same models one by one, then all at once =="
"$headroom" bench --source video="$examples/data/vtest.avi" --mem-limit 512MiB --max-frames 60 --parallel \
  --prepared-dir build/demo/prepared-video \
  --model text=.deps/models/ch_PP-OCRv4_det_infer.onnx \
  --model face=.deps/models/face_detection_back_256x256_barracuda.onnx \
  --model lines=.deps/models/mlsd_320x320_tiny.onnx

echo
echo "== made clips: a small EdgeTAM follows shapes; accuracy of its masks, and memory from frame to frame =="
"$headroom" bench --dataset tests/golden/vos/clips --mem-limit 512MiB --prepared-dir build/demo/prepared-clips \
  --model points=tests/golden/vos/shapes --model box=tests/golden/vos/shapes,prompt=box

people=${HEADROOM_SHARED_DATA:-../shared/data}/models
if [ -f "$people/yolox_nano_416x416.onnx" ]; then
  echo
  echo "== video vtest.avi: a person detector in three sizes, then all in one process =="
  "$headroom" bench --source video="$examples/data/vtest.avi" --mem-limit 1GiB --max-frames 60 --pipeline \
    --prepared-dir build/demo/prepared-people \
    --model people416="$people/yolox_nano_416x416.onnx" \
    --model people640="$people/yolox_nano_640x640.onnx" \
    --model people1280="$people/yolox_nano_1280x1280.onnx"
fi
